/* Looks up packed words in a sorted table: `search KIB LOOKUPS`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return fprintf(stderr, "search KIB LOOKUPS\n"), 2;
    long words = atol(argv[1]) * 1024 / sizeof(uint64_t), lookups = atol(argv[2]), found = 0;
    uint64_t *table = malloc(words * sizeof *table), state = 1;
    for (long at = 0; at < words; at++)
        table[at] = at * 3;
    for (long lookup = 0; lookup < lookups; lookup++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t word = (state >> 33) % (words * 3);
        long low = 0, high = words;
        while (high - low > 1) {
            long middle = (low + high) / 2;
            if (table[middle] <= word)
                low = middle;
            else
                high = middle;
        }
        found += table[low] == word;
    }
    return printf("%ld\n", found) < 0;
}
