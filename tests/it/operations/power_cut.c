/* Preloaded into the service: keeps a copy of each database file as of its last fsync, in
 * FILE.synced, which is all that a power cut leaves for certain. While the file that FAIL_FSYNC
 * names exists, every fsync fails; while the file that FULL_DISK names exists, the database files
 * do not grow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_on(const char *variable)
{
    const char *file = getenv(variable);
    return file && access(file, F_OK) == 0;
}

/* Finds the path of a descriptor; returns whether it is a database file. */
static int is_database(int fd, char path[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 4095);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, "changelog.db") != NULL;
}

static void keep(int fd)
{
    char path[4096], synced[4200], part[4200], bytes[1 << 16];
    if (!is_database(fd, path))
        return;
    snprintf(synced, sizeof synced, "%s.synced", path);
    snprintf(part, sizeof part, "%s.part", path);
    int copy = open(part, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (copy < 0)
        abort();
    /* By the same descriptor: closing another one of this file would end SQLite's locks. */
    off_t at = 0;
    ssize_t n;
    while ((n = pread(fd, bytes, sizeof bytes, at)) > 0) {
        if (write(copy, bytes, n) != n)
            abort();
        at += n;
    }
    close(copy);
    if (n < 0 || rename(part, synced) != 0)
        abort();
}

static int synchronize(int fd, const char *name)
{
    if (is_on("FAIL_FSYNC")) {
        errno = EIO;
        return -1;
    }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(fd);
    if (result == 0)
        keep(fd);
    return result;
}

int fsync(int fd) { return synchronize(fd, "fsync"); }
int fdatasync(int fd) { return synchronize(fd, "fdatasync"); }

/* Returns whether there is no room for what is written: blocks that a file has can be overwritten. */
static int is_refused(int fd, off_t end)
{
    char path[4096];
    struct stat file;
    if (!is_on("FULL_DISK") || !is_database(fd, path) || fstat(fd, &file) != 0)
        return 0;
    errno = ENOSPC;
    return end > file.st_size;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at >= 0 && is_refused(fd, at + (off_t)length))
        return -1;
    return real(fd, bytes, length);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return is_refused(fd, at + (off_t)length) ? -1 : real(fd, bytes, length, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
{
    return pwrite64(fd, bytes, length, at);
}
