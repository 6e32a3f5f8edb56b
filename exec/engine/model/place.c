#include "engine/model/place.h"

#include <stdlib.h>

enum status weights_place(const struct device *device, struct dev *dev, const struct model_weights *host, int32_t layers,
                          struct model_weights *ret_placed)
{
    enum status status = STATUS_OK;

    ret_placed->layer = calloc((size_t)layers, sizeof(ret_placed->layer[0]));
    if (ret_placed->layer == NULL)
        return STATUS_FULL;
#define PUT(name)                                               \
    if (status == STATUS_OK && host->name.data != NULL)         \
        status = device->weight(dev, &host->name, &ret_placed->name)
    PUT(embed);
    PUT(norm);
    if (host->head.data == host->embed.data) /* tied: once */
        ret_placed->head = ret_placed->embed;
    else
        PUT(head);
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
#undef PUT
    return status;
}
