/* below.c: finds the functions of the MPI below.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include "below.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFINE(name) __typeof__(MPI_##name) *below_##name;
BELOW_FUNCTIONS(DEFINE)

/* The library of the MPI, where the program has loaded it for itself only, as Python does. */
static void *library;

static int look(struct dl_phdr_info *loaded, size_t size, void *found)
{
    static const char *const names[] = {"libmpi.so", "libmpich.so", "libmpi_abi.so"};
    const char *name = strrchr(loaded->dlpi_name, '/');
    (void)size;
    for (size_t at = 0; name && at < sizeof names / sizeof *names; at++)
        if (!strncmp(name + 1, names[at], strlen(names[at]))) {
            *(const char **)found = loaded->dlpi_name;
            return 1;
        }
    return 0;
}

/* The next one in the order of loading that is not the door's own. */
static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    const char *path = NULL;
    if (!found && !library && dl_iterate_phdr(look, &path))
        library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    return found || !library ? found : dlsym(library, name);
}

void *door_find(const char *name, const char *older)
{
    void *found = find(name);
    if (!found && older)
        found = find(older);
    if (!found) {
        fprintf(stderr, "castell: the MPI below has no %s, which this program calls; is another MPI loaded than it was built with?\n",
                name);
        abort();
    }
    return found;
}

/* Processes that have no MPI load the library, too: shells, launchers. */
__attribute__((constructor)) static void loaded(void)
{
    if (find("PMPI_Init"))
        door_find_below();
}

void door_find_below(void)
{
    if (below_Init)
        return;
#define FIND(name) below_##name = door_find("PMPI_" #name, NULL);
    BELOW_FUNCTIONS(FIND)
}
