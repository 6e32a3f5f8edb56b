/* Runs a command and prints one JSON line: how long it took by CPU and by the wall, and its peak memory. The command's own
 * output goes to /dev/null; when it fails, so does this.   measure NAME COMMAND [ARGUMENT]... */
#define _DEFAULT_SOURCE /* wait4 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    struct timespec from;
    struct timespec until;
    struct rusage usage;
    pid_t child;
    int status;

    if (argc < 3) {
        fputs("usage: measure NAME COMMAND [ARGUMENT]...\n", stderr);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);

        if (null < 0 || dup2(null, STDOUT_FILENO) < 0)
            _exit(126);
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "measure: %s failed\n", argv[2]);
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    printf("{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"s\", \"wall_s\": %.3f, \"peak_rss_bytes\": %ld}\n", argv[1],
           seconds(usage.ru_utime) + seconds(usage.ru_stime),
           (double)(until.tv_sec - from.tv_sec) + (double)(until.tv_nsec - from.tv_nsec) * 1e-9, usage.ru_maxrss * 1024L);
    return 0;
}
