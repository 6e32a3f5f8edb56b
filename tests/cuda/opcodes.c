/* Counts instructions in cubins: for each kernel of each file named, how many HMMA (mma), LDSM (ldmatrix) and LDGSTS
 * (cp.async) there are. An instruction has 16 bytes on sm_80 and sm_90, its opcode in the lowest 12 bits. One line a
 * kernel: file, kernel, HMMA, LDSM, LDGSTS. */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPCODE_HMMA = 0x23c, OPCODE_LDSM = 0x83b, OPCODE_LDGSTS = 0xfae };

static unsigned char *file_read(const char *path, size_t *ret_bytes)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    long bytes;

    if (file == NULL)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0) {
        data = malloc((size_t)bytes);
        if (data != NULL && fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
            free(data);
            data = NULL;
        }
        *ret_bytes = (size_t)bytes;
    }
    fclose(file);
    return data;
}

static int print_kernels(const char *path, const unsigned char *data, size_t bytes)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)data;
    const Elf64_Shdr *sections;
    const char *names;

    if (bytes < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shoff + (uint64_t)header->e_shnum * sizeof(*sections) > bytes)
        return -1;
    sections = (const Elf64_Shdr *)(const void *)(data + header->e_shoff);
    names = (const char *)data + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++) {
        const char *name = names + sections[i].sh_name;
        unsigned long hmma = 0, ldsm = 0, ldgsts = 0;

        if (strncmp(name, ".text.", 6) != 0 || sections[i].sh_offset + sections[i].sh_size > bytes)
            continue;
        for (uint64_t at = 0; at + 16 <= sections[i].sh_size; at += 16) {
            uint64_t word;

            memcpy(&word, data + sections[i].sh_offset + at, sizeof(word));
            hmma += (word & 0xfff) == OPCODE_HMMA;
            ldsm += (word & 0xfff) == OPCODE_LDSM;
            ldgsts += (word & 0xfff) == OPCODE_LDGSTS;
        }
        printf("%s %s %lu %lu %lu\n", path, name + 6, hmma, ldsm, ldgsts);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        size_t bytes = 0;
        unsigned char *data = file_read(argv[i], &bytes);

        if (data == NULL || print_kernels(argv[i], data, bytes) != 0) {
            fprintf(stderr, "%s: no cubin\n", argv[i]);
            failed = 1;
        }
        free(data);
    }
    return failed;
}
