#include "engine/device/mps.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What the kernel keeps of nvidia-cuda-mps-control and nvidia-cuda-mps-server. */
#define MPS_NAME "nvidia-cuda-mps"
#define MPS_DIRECTORY "/tmp/nvidia-mps"

static bool is_mps(const char *process)
{
    char path[300];
    char name[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%.200s/comm", process);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    (void)!fread(name, 1, sizeof(name) - 1, file);
    fclose(file);
    return strcmp(name, MPS_NAME "\n") == 0;
}

/* 0: none is seen. */
static long find_process(void)
{
    DIR *list = opendir("/proc");
    struct dirent *entry;
    long process = 0;

    while (list != NULL && process == 0 && (entry = readdir(list)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_mps(entry->d_name))
            process = strtol(entry->d_name, NULL, 10);
    if (list != NULL)
        closedir(list);
    return process;
}

bool mps_runs_here(char *ret_text, size_t text_bytes)
{
    const char *directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
    const long process = find_process();
    const bool chosen = directory != NULL;

    if (!chosen)
        directory = MPS_DIRECTORY;
    if (process != 0)
        snprintf(ret_text, text_bytes, "process %ld; processes on a GPU run at the same time if they see its pipes, %s", process, directory);
    else if (access(directory, F_OK) == 0)
        snprintf(ret_text, text_bytes, "%s is there, but no daemon is seen from here", directory);
    else
        snprintf(ret_text, text_bytes, "%s%s is not there; processes on a GPU take turns; nvidia-cuda-mps-control -d starts it",
                 chosen ? "CUDA_MPS_PIPE_DIRECTORY " : "", directory);
    return process != 0;
}
