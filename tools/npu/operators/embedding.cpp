#include "shapes/embedding.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::EmbeddingShape> embedding;
