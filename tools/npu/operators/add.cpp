#include "shapes/add.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::AddShape> add;
