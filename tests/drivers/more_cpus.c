/* Make TRex see 16 CPUs: each one beyond the last stands for an existing one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static int cpu_count(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

static const char *map_to_existing_cpu(const char *path, char *buffer, size_t size)
{
    int cpu, end = 0;
    if (sscanf(path, "/sys/devices/system/cpu/cpu%d/%n", &cpu, &end) < 1 || !end || cpu >= 16)
        return path;
    snprintf(buffer, size, "/sys/devices/system/cpu/cpu%d/%s", cpu % cpu_count(), path + end);
    return buffer;
}

int access(const char *path, int mode)
{
    int (*real)(const char *, int) = dlsym(RTLD_NEXT, "access");
    char buffer[256];
    return real(map_to_existing_cpu(path, buffer, sizeof buffer), mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    char buffer[256];
    return real(map_to_existing_cpu(path, buffer, sizeof buffer), mode);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    int (*real)(pthread_t, size_t, const cpu_set_t *) =
        dlsym(RTLD_NEXT, "pthread_setaffinity_np");
    cpu_set_t mine;
    CPU_ZERO(&mine);
    for (size_t cpu = 0; cpu < 8 * size && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET_S(cpu, size, set)) CPU_SET(cpu % cpu_count(), &mine);
    return real(thread, sizeof mine, &mine);
}
