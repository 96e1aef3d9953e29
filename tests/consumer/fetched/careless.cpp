// Must not compile: a conversion that loses a sign.
#include <inlay/inlay.hpp>

unsigned careless(inlay::index n) { return n; }
