#define _XOPEN_SOURCE 700 /* realpath */
#include "host/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 8

static bool plots_are_in(const char *path)
{
    char script[PLOTS_PATH_MAX + 16];
    struct stat facts;

    snprintf(script, sizeof(script), "%s/style.gp", path);
    return stat(script, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* False when it does not fit, or there are no scripts: a path is refused, not cut. */
static bool plots_take(const char *folder, const char *rest, char ret_path[PLOTS_PATH_MAX])
{
    char path[PLOTS_PATH_MAX];
    const int length = snprintf(path, sizeof(path), "%s%s", folder, rest);

    return length >= 0 && length < PLOTS_PATH_MAX && plots_are_in(path) && realpath(path, ret_path) != NULL;
}

enum status plots_find(char ret_path[PLOTS_PATH_MAX])
{
    const char *told = getenv("BERTH_PLOTS");
    char program[PLOTS_PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (told != NULL && told[0] != '\0')
        return plots_take(told, "", ret_path) ? STATUS_OK : STATUS_NOT_FOUND;
    program[length > 0 ? length : 0] = '\0';
    for (char *slash = strrchr(program, '/'); slash != NULL; slash = strrchr(program, '/')) {
        *slash = '\0';
        if (plots_take(program, "/plots", ret_path))
            return STATUS_OK;
    }
    return plots_take("plots", "", ret_path) ? STATUS_OK : STATUS_NOT_FOUND;
}

/* In the child. */
static _Noreturn void gnuplot_become(const char *folder, char *const *arguments, const char *library, const char *log)
{
    const int in = open("/dev/null", O_RDONLY);
    const int out = chdir(folder) == 0 ? open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    /* Texts are UTF-8 and numbers have points, whatever the caller's locale; on a bare machine there is none. */
    if (setenv("LC_ALL", "C.UTF-8", 1) != 0 || (library != NULL && setenv("GNUPLOT_LIB", library, 1) != 0))
        _exit(126);
    execvp(arguments[0], arguments);
    _exit(errno == ENOENT ? 127 : 126);
}

enum status gnuplot_run(const char *folder, const char *script, const char *const *arguments, const char *library, const char *log)
{
    static char program[] = "gnuplot", bare[] = "-d", call[] = "-c";
    char *all[4 + ARGUMENTS_MAX + 1] = {program, bare, call, (char *)(uintptr_t)script};
    int code = 0;
    pid_t child;

    for (size_t i = 0; arguments[i] != NULL; i++) {
        check(i < ARGUMENTS_MAX);
        all[4 + i] = (char *)(uintptr_t)arguments[i];
    }
    child = fork();
    if (child == 0)
        gnuplot_become(folder, all, library, log);
    while (child > 0 && waitpid(child, &code, 0) < 0)
        if (errno != EINTR)
            child = -1;
    if (child < 0 || (WIFEXITED(code) && WEXITSTATUS(code) == 126))
        return STATUS_IO;
    if (WIFEXITED(code) && WEXITSTATUS(code) == 127)
        return STATUS_NOT_FOUND;
    return WIFEXITED(code) && WEXITSTATUS(code) == 0 ? STATUS_OK : STATUS_INVALID;
}
