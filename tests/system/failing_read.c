/* Preloaded, it counts the opens and reads of files below a folder, and makes one of them fail. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long counted, failing;
static int error;

void arm(const char *below, long at, int number) {
    strncpy(folder, below, PATH_MAX - 1);
    failing = at;
    error = number;
    __atomic_store_n(&counted, 0, __ATOMIC_SEQ_CST);
}

long count(void) { return counted; }

static int fails(const char *path) {
    if (!folder[0] || strncmp(path, folder, strlen(folder))) return 0;
    if (__atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST) != failing) return 0;
    errno = error;
    return 1;
}

static int descriptor_fails(int file) {
    char link[64], path[PATH_MAX];
    if (!folder[0] || file < 3) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(path);
}

static int opened(int at, const char *path, int flags, int mode) {
    if (!(flags & O_ACCMODE) && fails(path)) return -1;
    return syscall(SYS_openat, at, path, flags, mode);
}

#define MODE                                     \
    va_list rest;                                \
    va_start(rest, flags);                       \
    int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, int) : 0; \
    va_end(rest)

int open(const char *path, int flags, ...) { MODE; return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE; return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE; return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE; return opened(at, path, flags | O_LARGEFILE, mode); }
ssize_t read(int file, void *to, size_t size) {
    return descriptor_fails(file) ? -1 : syscall(SYS_read, file, to, size);
}
ssize_t pread(int file, void *to, size_t size, off_t from) {
    return descriptor_fails(file) ? -1 : syscall(SYS_pread64, file, to, size, from);
}
ssize_t pread64(int file, void *to, size_t size, off64_t from) {
    return descriptor_fails(file) ? -1 : syscall(SYS_pread64, file, to, size, from);
}
