/* kept.c: what was measured here, kept for programs that start later: a text file, to which each measurement adds a line. A line stands
 * for itself and later ones count more, so programs that end early or measure at the same time do no harm, and lines that nobody
 * understands are left alone.
 *
 *     1 CASTELL MPI PROCESSORS/EACH RANKS-OF-HOST PLACEMENT OPERATION FORM BYTES CASTELL-NS BELOW-NS
 *
 * PLACEMENT is that of struct door_comm: how many ranks, and on how many hosts, in which order.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include "below.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is read of the file, from its end. Bytes. */
#define READ_MAX (1 << 20)
#define LINE_MAX_BYTES 512
/* Placements of communicators of which something is kept. */
#define PLACEMENTS_MAX 32

static char file[4096];
/* What lines of this MPI on this machine start with. */
static char key[256];
static int is_kept, world_rank;

static struct known {
    char placement[DOOR_PLACEMENT];
    unsigned char states[DOOR_OPERATIONS][DOOR_CHOSEN_FORMS][DOOR_CLASSES];
} known[PLACEMENTS_MAX];
static int placements;

static const char *const forms[DOOR_CHOSEN_FORMS] = {"blocking", "started"};

static struct known *known_of(const char *placement)
{
    int at = 0;
    while (at < placements && strcmp(known[at].placement, placement))
        at++;
    if (at == PLACEMENTS_MAX)
        return NULL;
    if (at == placements)
        snprintf(known[placements++].placement, DOOR_PLACEMENT, "%s", placement);
    return &known[at];
}

static void learn(const char *placement, int operation, int form, size_t bytes, double castell, double below)
{
    struct known *of = known_of(placement);
    if (of)
        of->states[operation][form][door_class(bytes)] = door_is_faster(castell, below) ? DOOR_CASTELL : DOOR_BELOW;
}

void door_kept_for(const char *placement, struct door_choices *choices)
{
    for (int at = 0; at < placements; at++)
        if (!strcmp(known[at].placement, placement))
            memcpy(choices->states, known[at].states, sizeof known[at].states);
}

/* A line without its key, if it is one. */
static void read_line(const char *line)
{
    char placement[DOOR_PLACEMENT], operation[32], form[16];
    int of = 0, in = 0;
    unsigned long long bytes;
    double castell, below;
    if (sscanf(line, "%127s %31s %15s %llu %lf %lf", placement, operation, form, &bytes, &castell, &below) != 6)
        return;
    while (of < DOOR_OPERATIONS && strcmp(door_names[of], operation))
        of++;
    while (in < DOOR_CHOSEN_FORMS && strcmp(forms[in], form))
        in++;
    if (of < DOOR_OPERATIONS && in < DOOR_CHOSEN_FORMS && castell > 0 && below > 0)
        learn(placement, of, in, (size_t)bytes, castell, below);
}

/* The lines that start with the key, without it, one behind the other. */
static size_t read_file(char *lines, size_t room)
{
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    struct stat found;
    if (descriptor < 0)
        return 0;
    size_t length = 0, start = 0, kept = 0, key_length = strlen(key);
    if (!fstat(descriptor, &found) && S_ISREG(found.st_mode)) {
        if (found.st_size > (off_t)room)
            lseek(descriptor, found.st_size - (off_t)room, SEEK_SET);
        ssize_t got;
        while (length < room && (got = read(descriptor, lines + length, room - length)) > 0)
            length += (size_t)got;
    }
    close(descriptor);
    while (start < length) {
        char *end = memchr(lines + start, '\n', length - start);
        size_t next = end ? (size_t)(end - lines) + 1 : length, bytes = next - start;
        if (end && bytes > key_length && !memcmp(lines + start, key, key_length) && lines[start + key_length] == ' ') {
            memmove(lines + kept, lines + start + key_length + 1, bytes - key_length - 1);
            kept += bytes - key_length - 1;
        }
        start = next;
    }
    return kept;
}

static void mark(char *text)
{
    text[strcspn(text, "\n,")] = 0;
    for (; *text; text++)
        if (*text <= ' ' || *text == '/' || *text > '~')
            *text = '_';
}

/* Where the file lies: CASTELL_MPI_CHOICES, or beside castell's tuning file. 0: nowhere. */
static int set_file(void)
{
    const char *named = getenv("CASTELL_MPI_CHOICES"), *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char host[256] = "";
    if (named && *named)
        return strcmp(named, "off") && snprintf(file, sizeof file, "%s", named) < (int)sizeof file;
    gethostname(host, sizeof host - 1);
    mark(host);
    if (config && *config == '/')
        return snprintf(file, sizeof file, "%s/castell/tuning/%s.mpi", config, host) < (int)sizeof file;
    return home && *home == '/' && snprintf(file, sizeof file, "%s/.config/castell/tuning/%s.mpi", home, host) < (int)sizeof file;
}

/* How many processors the ranks of this host may use, and each of them at most. */
static void count_processors(MPI_Comm shared, int *all, int *each)
{
    cpu_set_t mine, of_all;
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    *each = CPU_COUNT(&mine);
    below_Allreduce(MPI_IN_PLACE, each, 1, MPI_INT, MPI_MAX, shared);
    below_Allreduce(&mine, &of_all, (int)sizeof mine, MPI_BYTE, MPI_BOR, shared);
    *all = CPU_COUNT(&of_all);
}

/* When this library of castell was built: another one may be faster or slower. */
static unsigned long long built(void)
{
    Dl_info library;
    struct stat found;
    if (!dladdr((void *)(uintptr_t)castell_barrier, &library) || stat(library.dli_fname, &found))
        return 0;
    return (unsigned long long)found.st_mtime;
}

void door_kept_start(MPI_Comm shared)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, ranks, rank, processors, each;
    below_Comm_rank(MPI_COMM_WORLD, &world_rank);
    below_Comm_size(shared, &ranks);
    below_Comm_rank(shared, &rank);
    count_processors(shared, &processors, &each);
    below_Get_library_version(version, &length);
    mark(version);
    snprintf(key, sizeof key, "1 " GOAL_VERSION "-%llx %.100s %d/%d %d", built(), version, processors, each, ranks);
    is_kept = set_file();
    char *lines = rank == 0 && is_kept ? malloc(READ_MAX + 1) : NULL;
    int bytes = lines ? (int)read_file(lines, READ_MAX) : 0;
    below_Bcast(&bytes, 1, MPI_INT, 0, shared);
    if (!lines && bytes && !(lines = malloc((size_t)bytes + 1)))
        abort();
    if (bytes) {
        below_Bcast(lines, bytes, MPI_CHAR, 0, shared);
        lines[bytes] = 0;
        for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"))
            read_line(line);
    }
    free(lines);
}

/* Makes the folders in which the file lies. */
static void make_folders(void)
{
    for (char *slash = strchr(file + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(file, 0777);
        *slash = '/';
    }
}

void door_keep(const struct door_comm *comm, enum door_operation operation, enum door_form form, size_t bytes,
               const double seconds[2])
{
    char line[LINE_MAX_BYTES];
    learn(comm->placement, operation, form, bytes, seconds[0], seconds[1]);
    /* One of each host writes, since each has its file; of communicators of one rank, the first. */
    if (!is_kept || !comm->is_first_here || (comm->size == 1 && world_rank != 0))
        return;
    int length = snprintf(line, sizeof line, "%s %s %s %s %zu %.1f %.1f\n", key, comm->placement, door_names[operation], forms[form],
                          bytes, 1e9 * seconds[0], 1e9 * seconds[1]);
    int descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == ENOENT) {
        make_folders();
        descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    }
    if (descriptor < 0 || write(descriptor, line, (size_t)length) != length) {
        fprintf(stderr, "castell: what was measured cannot be kept in %s: %s; CASTELL_MPI_CHOICES names another file, or is off\n",
                file, strerror(errno));
        is_kept = 0;
    }
    if (descriptor >= 0)
        close(descriptor);
}

const char *door_kept_where(void)
{
    return is_kept ? file : NULL;
}
