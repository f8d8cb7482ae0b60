/* Functions of a library that is loaded when it is asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef EXAMPLES_KERNELS_LIBRARY_H
#define EXAMPLES_KERNELS_LIBRARY_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program where this is not right. */
static void library_check(int is_right, const char *library, const char *what) {
    if (is_right) return;
    fprintf(stderr, "%s: cannot %s\n", library, what);
    exit(1);
}

static void *library_function(void *library, const char *name) {
    void *function = dlsym(library, name);
    library_check(function != NULL, name, "be found");
    return function;
}

/* Declares a pointer to a function, and finds the function of this name. */
#define LIBRARY_FUNCTION(library, declaration, pointer_name) \
    declaration;                                             \
    *(void **)&pointer_name = library_function(library, #pointer_name)

#endif
