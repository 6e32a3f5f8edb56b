/* Memory of one template or one rendering: taken piece by piece, given back at once, with an end. */
#include <stdlib.h>

#include "engine/chat/inside.h"

struct arena_block {
    struct arena_block *next;
    char *at;
};

enum { BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };

void *arena_take(struct arena *arena, size_t bytes)
{
    char *taken;

    if (bytes > arena->used_max)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > arena->used_max - arena->used)
        return NULL;
    arena->used += bytes;
    if (bytes > arena->left) {
        size_t header = (sizeof(struct arena_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct arena_block *block = malloc(header + size);

        check(block != NULL);
        block->next = arena->blocks;
        block->at = (char *)block + header;
        arena->blocks = block;
        arena->left = size;
    }
    taken = arena->blocks->at;
    arena->blocks->at += bytes;
    arena->left -= bytes;
    memset(taken, 0, bytes);
    return taken;
}

void arena_free(struct arena *arena)
{
    while (arena->blocks != NULL) {
        struct arena_block *next = arena->blocks->next;

        free(arena->blocks);
        arena->blocks = next;
    }
    arena->left = 0;
    arena->used = 0;
}
