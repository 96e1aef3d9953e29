// A model as C holds it: for model.cpp, which writes texts with it, and model_tokens.cpp, which only reads its words.
#pragma once

#include <atomic>
#include <memory>

#include <inlay/exec/serve/server.hpp>
#include <inlay/text/tokenizer.hpp>

#include "bindings/c/backend.hpp"

struct inlay_model {
  std::unique_ptr<inlay::c::CallersThreads> threads;
  inlay::exec::Tokenizer tokenizer;
  inlay::exec::Server server;
  std::atomic<bool> busy{false};

  inlay_model(std::unique_ptr<inlay::c::CallersThreads> callers, inlay::exec::Tokenizer words,
              inlay::exec::Server texts)
      : threads(std::move(callers)), tokenizer(std::move(words)), server(std::move(texts)) {}
};
