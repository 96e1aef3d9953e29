# Cross-builds for 64-bit Arm with Debian's compiler and runs what it built under qemu-user (scripts/arm.sh).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
# Header-only packages, which are for every architecture: behind the C library's own headers.
set(CMAKE_CXX_FLAGS_INIT "-idirafter /usr/include")
