#include "bench/machine/report.hpp"

int main(int argc, char** argv) { return inlay::npu::bench::report("rms_norm", argc, argv); }
