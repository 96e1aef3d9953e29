// A model that is split into several GGUF files, NAME-00001-of-00003.gguf and so on.
//
//   first     all metadata,  split.no 0, split.count 3, split.tensors.count of all parts; some of the tensors
//   another   split.no, split.count, split.tensors.count; more of the tensors. Other keys only as the first has them
#pragma once

#include <string>

#include "executor/model/gguf/gguf.hpp"

namespace inlay::exec {

// That the file is none of several, or the first of them: only that one has all metadata.
Status check_first_gguf_part(const GgufFile& file);

// Opens the other parts beside `path`, which `file` was read from, and takes their tensors in. A file that is none of
// several stays as it is.
Status join_gguf_parts(GgufFile& file, const std::string& path);

// Takes in part number `no`, from 1 on, unless its metadata say that it belongs elsewhere.
Status take_gguf_part(GgufFile& file, GgufFile part, index no);

// That there are as many tensors as split.tensors.count says, each once.
Status check_gguf_parts(const GgufFile& file);

}  // namespace inlay::exec
