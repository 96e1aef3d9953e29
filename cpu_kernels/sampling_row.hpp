// The candidates of one row: parallel arrays in ascending order of id. A stage only removes from
// them, so that the draw at the end walks ids upwards whatever was filtered before.
//
// Likelihood is ordered by (logit descending, id ascending). A stage that keeps the likeliest finds
// its last one, the cut, and one pass removes what comes after it: nothing is sorted.
#pragma once

#include <inlay/ops/sampling.hpp>

#include <cmath>

#include "cpu_kernels/selection.hpp"
#include "cpu_kernels/simd/exp_double.hpp"

namespace inlay::cpu {

template <class Level> struct Candidates {
  std::int32_t* id;
  float* logit;
  double* weight;  // exp((logit - max) / temperature)
  double* key;     // of the typical stage
  std::int32_t* heap;
  index count = 0;

  bool likelier(index a, index b) const { return logit[a] != logit[b] ? logit[a] > logit[b] : id[a] < id[b]; }
  index likeliest() const {
    index best = 0;
    for (index i = 1; i < count; ++i)
      if (logit[i] > logit[best]) best = i;
    return best;
  }

  template <class Keep> INLAY_INLINE void keep_if(Keep&& keep) {
    index kept = 0;
    for (index i = 0; i < count; ++i)
      if (keep(i)) {
        id[kept] = id[i];
        logit[kept] = logit[i];
        weight[kept] = weight[i];
        ++kept;
      }
    count = kept;
  }
  void keep_likeliest(index cut) {
    const float v = logit[cut];
    const std::int32_t last = id[cut];
    keep_if([&](index i) { return logit[i] > v || (logit[i] == v && id[i] <= last); });
  }

  // Sums in one fixed order, whatever registers a level has: eight chains, then the rest.
  static double sum(const double* values, index n) {
    double chain[8] = {};
    index i = 0;
    for (; i + 8 <= n; i += 8)
      for (int k = 0; k < 8; ++k) chain[k] += values[i + k];
    for (; i < n; ++i) chain[0] += values[i];
    return ((chain[0] + chain[1]) + (chain[2] + chain[3])) + ((chain[4] + chain[5]) + (chain[6] + chain[7]));
  }
  double total() const { return sum(weight, count); }

  // z_i = (logit - max) / temperature, written to `z`.
  void exponents(double temperature, double* z) const {
    const double most = logit[likeliest()];
    for (index i = 0; i < count; ++i) z[i] = (static_cast<double>(logit[i]) - most) / temperature;
  }
  // Candidates whose weight is zero are gone afterwards.
  void weigh(double temperature) {
    exponents(temperature, weight);
    constexpr index width = simd::exp_width;
    index i = 0;
    for (; i + width <= count; i += width) {
      double z[width];
      for (index k = 0; k < width; ++k) z[k] = weight[i + k];
      simd::exp_not_positive(z, weight + i);
    }
    if (i < count) {
      double z[width] = {}, w[width];
      for (index k = 0; i + k < count; ++k) z[k] = weight[i + k];
      simd::exp_not_positive(z, w);
      for (index k = 0; i + k < count; ++k) weight[i + k] = w[k];
    }
    keep_if([&](index k) { return weight[k] > 0; });
  }

  void keep_sigma(double n) {
    for (index i = 0; i < count; ++i) key[i] = logit[i];
    const double mean = sum(key, count) / static_cast<double>(count);
    for (index i = 0; i < count; ++i) key[i] = (key[i] - mean) * (key[i] - mean);
    const double sigma = __builtin_sqrt(sum(key, count) / static_cast<double>(count));
    const double low = logit[likeliest()] - n * sigma;
    keep_if([&](index i) { return !(logit[i] < low); });
  }

  void keep_top(index k) {
    if (k >= count) return;
    for (index i = 0; i < count; ++i) heap[i] = static_cast<std::int32_t>(i);
    const auto before = [&](index a, index b) { return likelier(a, b); };
    make_heap(heap, count, before);
    index cut = 0;
    for (index taken = 0; taken < k; ++taken) cut = pop_heap(heap, count - taken, before);
    keep_likeliest(cut);
  }

  // -ln p_i - H = mean(z) - z_i: neither logarithm nor entropy is needed. Those kept are marked by
  // their sign.
  void keep_typical(double mass, double temperature) {
    const double all = total();
    exponents(temperature, key);
    double mean = 0;
    for (index i = 0; i < count; ++i) mean += weight[i] * key[i];
    mean /= all;
    for (index i = 0; i < count; ++i) {
      key[i] = __builtin_fabs(mean - key[i]);
      heap[i] = static_cast<std::int32_t>(i);
    }
    const auto before = [&](index a, index b) { return key[a] != key[b] ? key[a] < key[b] : likelier(a, b); };
    make_heap(heap, count, before);
    double reached = 0;
    for (index taken = 0; taken < count && (taken == 0 || reached < mass * all); ++taken) {
      double& w = weight[pop_heap(heap, count - taken, before)];
      reached += w;
      w = -w;
    }
    keep_if([&](index i) { return weight[i] < 0; });
    for (index i = 0; i < count; ++i) weight[i] = -weight[i];
  }

  // Candidates below (1 - mass) / count of the whole weigh less than 1 - mass together, so those
  // above reach the mass without them: of a model's 128256 tokens the heap holds a few hundred.
  void keep_mass(double mass) {
    const double all = total();
    constexpr double margin = 0.999;  // for the roundings of the sums
    const double low = margin * (1 - mass) * all / static_cast<double>(count);
    index size = 0;
    for (index i = 0; i < count; ++i)
      if (weight[i] >= low) heap[size++] = static_cast<std::int32_t>(i);
    const auto before = [&](index a, index b) { return likelier(a, b); };
    make_heap(heap, size, before);
    double reached = 0;
    index cut = 0;
    for (index taken = 0; taken < size && (taken == 0 || reached < mass * all); ++taken)
      reached += weight[cut = pop_heap(heap, size - taken, before)];
    keep_likeliest(cut);
  }

  void keep_min(double fraction) {
    const double low = fraction * weight[likeliest()];
    keep_if([&](index i) { return weight[i] >= low; });
  }

  void drop_top_choices(double threshold) {
    const double low = threshold * total();
    index top = 0, last = 0;
    for (index i = 0; i < count; ++i)
      if (weight[i] >= low && (top++ == 0 || likelier(last, i))) last = i;
    if (top < 2) return;
    const float v = logit[last];
    const std::int32_t spared = id[last];
    keep_if([&](index i) { return logit[i] < v || (logit[i] == v && id[i] >= spared); });
  }

  // The first candidate whose running sum passes u times the whole: whole blocks are skipped.
  index draw(double u) const {
    constexpr index block = 64;
    const double target = u * total();
    double reached = 0;
    for (index begin = 0; begin < count; begin += block) {
      const index end = begin + block < count ? begin + block : count;
      const double of_block = sum(weight + begin, end - begin);
      if (reached + of_block > target) {
        double inside = reached;
        for (index i = begin; i < end; ++i)
          if ((inside += weight[i]) > target) return i;
      }
      reached += of_block;
    }
    return count - 1;  // u within a rounding of 1
  }
};

}  // namespace inlay::cpu
