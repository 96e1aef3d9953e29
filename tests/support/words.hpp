// What a message must hold: the name of what is wrong, its value, what it must be.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include <inlay/core/status.hpp>

namespace inlay::test {

inline void expect_words(std::string_view message, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(message.find(word), std::string_view::npos) << word << " is not in: " << message;
}

inline void expect_refused(const Status& status, StatusCode code, std::initializer_list<const char*> words) {
  EXPECT_EQ(status.code(), code) << status.message();
  expect_words(status.message(), words);
}

}  // namespace inlay::test
