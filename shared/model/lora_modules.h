/* The seven linear modules of a layer that an adapter may change, in the order of a packed adapter. */
#ifndef MODEL_LORA_MODULES_H
#define MODEL_LORA_MODULES_H

#define LORA_MODULE_LIST(X) X(Q, "q") X(K, "k") X(V, "v") X(O, "o") X(GATE, "gate") X(UP, "up") X(DOWN, "down")
enum lora_module {
#define X(name, text) LORA_##name,
    LORA_MODULE_LIST(X)
#undef X
    LORA_MODULE_COUNT
};
#define LORA_ALL_LINEAR 0x7fu
#define LORA_ATTENTION 0x0fu /* q k v o, as in the S-LoRA paper */

#endif
