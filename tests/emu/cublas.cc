/* cuBLAS's one call, column-major and scalar: a wrong transpose or leading dimension gives wrong numbers or a refusal. */
#include "emu/emu.h"

struct emu_blas { cudaStream_t stream; };

struct operand {
    const void *data;
    cudaDataType type;
    cublasOperation_t op;
    int64_t lead;
};

static float element(const struct operand *from, int64_t row, int64_t column)
{
    int64_t at = from->op == CUBLAS_OP_N ? row + column * from->lead : column + row * from->lead;

    if (from->type == CUDA_R_32F)
        return ((const float *)from->data)[at];
    return __uint_as_float((uint32_t)((const uint16_t *)from->data)[at] << 16);
}

static bool operand_fits(const char *name, const struct operand *what, int64_t rows, int64_t columns)
{
    int64_t stored_rows = what->op == CUBLAS_OP_N ? rows : columns, stored_columns = what->op == CUBLAS_OP_N ? columns : rows;
    int64_t size = what->type == CUDA_R_32F ? 4 : 2;

    if (what->lead < stored_rows || what->lead < 1) {
        emu::refuse("cublasGemmEx: the leading dimension %lld of %s is below its %lld rows", (long long)what->lead, name,
                    (long long)stored_rows);
        return false;
    }
    if (!emu::on_device(what->data, (size_t)(((stored_columns - 1) * what->lead + stored_rows) * size))) {
        emu::refuse("cublasGemmEx: %s reaches outside of what was allocated", name);
        return false;
    }
    return true;
}

cublasStatus_t cublasCreate(cublasHandle_t *ret_handle)
{
    *ret_handle = new emu_blas{nullptr};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *workspace, size_t bytes)
{
    if (!emu::on_device(workspace, bytes) || (uintptr_t)workspace % 256 != 0)
        emu::refuse("cublasSetWorkspace: no such memory");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b, cudaDataType type_b,
                            int ldb, const void *beta, void *c, cudaDataType type_c, int ldc, cublasComputeType_t,
                            cublasGemmAlgo_t)
{
    struct operand left = {a, type_a, op_a, lda}, right = {b, type_b, op_b, ldb}, result = {c, type_c, CUBLAS_OP_N, ldc};
    float scale = *(const float *)alpha, keep = *(const float *)beta;

    if (m < 1 || n < 1 || k < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (type_c != CUDA_R_32F || type_a != type_b)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!operand_fits("A", &left, m, k) || !operand_fits("B", &right, k, n) || !operand_fits("C", &result, m, n))
        return CUBLAS_STATUS_INVALID_VALUE;
    emu::enqueue(handle->stream, [=] {
        emu::device_open();
        for (int64_t column = 0; column < n; column++) {
            for (int64_t row = 0; row < m; row++) {
                float *to = (float *)c + row + column * ldc;
                float sum = 0;

                for (int64_t i = 0; i < k; i++)
                    sum += element(&left, row, i) * element(&right, i, column);
                *to = scale * sum + (keep == 0 ? 0 : keep * *to);
            }
        }
        emu::device_close();
    });
    return CUBLAS_STATUS_SUCCESS;
}
