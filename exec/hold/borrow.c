#include "hold/borrow.h"

enum status base_borrow(const char *socket_path, const struct device *device, const struct model *model, const volatile sig_atomic_t *stop,
                        struct loan *ret_loan, struct refusal *refusal)
{
    uint8_t digest[DIGEST_BYTES];

    if (device->share == NULL)
        return refuse(refusal, STATUS_INVALID, "--base-socket is for GPUs: on the device %s all processes share the mapped weights file already; "
                                               "leave it out", device->name);
    if (safetensors_digest(model->files, stop, digest) != STATUS_OK)
        return refuse(refusal, STATUS_END, "stopped while the base's digest was taken");
    return loan_take(socket_path, digest, ret_loan, refusal);
}
