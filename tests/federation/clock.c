/* The clock of a process, off by CLOCK_SHIFT_S seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
    const char *text = getenv("CLOCK_SHIFT_S");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) at->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec found;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &found);
    at->tv_sec = found.tv_sec;
    at->tv_usec = found.tv_nsec / 1000;
    return result;
}

time_t time(time_t *at) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (at) *at = found.tv_sec;
    return found.tv_sec;
}
