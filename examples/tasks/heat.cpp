// Heat in a plate by Gauss-Seidel, block by block: the sweeps overlap in a wave, and the result is the serial one, bit by bit.
// A block's accesses are its own rows, strided, and the edges of its neighbours.
#include <castell_tasks.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int blocks = 6, size = 16, sweeps = 20, width = blocks * size + 2;

// A border of one point around the plate; its upper edge is hot.
static std::vector<double> plate() {
    std::vector<double> points(width * width, 0.0);
    for (int column = 0; column < width; column++) {
        points[column] = 100.0;
    }
    return points;
}

static void sweep(double *points, int row_first, int column_first, int rows, int columns) {
    for (int row = row_first; row < row_first + rows; row++) {
        for (int column = column_first; column < column_first + columns; column++) {
            double *at = points + row * width + column;
            *at = 0.25 * (at[-width] + at[-1] + at[1] + at[width]);
        }
    }
}

static castell_access rectangle(int kind, double *points, int row, int column, int rows, int columns) {
    return {kind, points + row * width + column, columns * sizeof(double), width * sizeof(double), std::size_t(rows), nullptr};
}

int main() {
    std::vector<double> result = plate(), serial = plate();
    double *points = result.data();
    castell::runtime runtime;
    runtime.run([points] {
        castell_task task{};
        task.label = "sweep";
        for (int count = 0; count < sweeps; count++) {
            for (int row = 1; row + 1 < width; row += size) {
                for (int column = 1; column + 1 < width; column += size) {
                    castell::submit(task, [=] { sweep(points, row, column, size, size); },
                                    rectangle(CASTELL_INOUT, points, row, column, size, size),
                                    rectangle(CASTELL_IN, points, row - 1, column, 1, size),
                                    rectangle(CASTELL_IN, points, row, column - 1, size, 1),
                                    rectangle(CASTELL_IN, points, row, column + size, size, 1),
                                    rectangle(CASTELL_IN, points, row + size, column, 1, size));
                }
            }
        }
    });
    for (int count = 0; count < sweeps; count++) {
        sweep(serial.data(), 1, 1, width - 2, width - 2);
    }
    if (result != serial) {
        std::fprintf(stderr, "tasks and the serial sweeps differ\n");
        return EXIT_FAILURE;
    }
    std::printf("%d sweeps over %d x %d points: the serial result, bit by bit\n", sweeps, width - 2, width - 2);
}
