#include "engine/model/place.h"

#include <stdlib.h>

uint32_t weights_list(struct model_weights *weights, int32_t layers, bool tied_head, struct weight **ret_list)
{
    uint32_t count = 0;

#define PUT(name) ret_list[count++] = &weights->name
    PUT(embed);
    PUT(norm);
    for (int32_t i = 0; i < layers; i++) {
        PUT(layer[i].attn_norm);
        for (int j = 0; j < 3; j++)
            PUT(layer[i].qkv[j]);
        PUT(layer[i].q_norm);
        PUT(layer[i].k_norm);
        PUT(layer[i].o);
        PUT(layer[i].mlp_norm);
        for (int j = 0; j < 2; j++)
            PUT(layer[i].gate_up[j]);
        PUT(layer[i].down);
    }
    if (!tied_head)
        PUT(head);
#undef PUT
    return count;
}

enum status weights_place(const struct device *device, struct dev *dev, const struct model_weights *host, int32_t layers,
                          struct model_weights *ret_placed)
{
    struct weight **from = calloc(2 * WEIGHTS_LISTED_MAX(layers), sizeof(from[0]));
    struct weight **to = from + WEIGHTS_LISTED_MAX(layers);
    struct model_weights listed = *host;
    enum status status = STATUS_OK;
    uint32_t count;

    ret_placed->layer = calloc((size_t)layers, sizeof(ret_placed->layer[0]));
    if (from == NULL || ret_placed->layer == NULL) {
        free(from);
        return STATUS_FULL;
    }
    count = weights_list(&listed, layers, weights_tied(host), from);
    weights_list(ret_placed, layers, weights_tied(host), to);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        if (from[i]->data != NULL)
            status = device->weight(dev, from[i], to[i]);
    if (weights_tied(host))
        ret_placed->head = ret_placed->embed;
    free(from);
    return status;
}
