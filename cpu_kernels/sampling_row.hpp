// The candidates of one row: parallel arrays in ascending order of id. A stage only removes from
// them, so that the draw at the end walks ids upwards whatever was filtered before.
//
// Likelihood is ordered by (logit descending, id ascending). A stage that keeps the likeliest finds
// its last one, the cut, and one pass removes what comes after it: nothing is sorted.
#pragma once

#include <inlay/ops/sampling.hpp>

#include <cmath>
#include <limits>

#include "cpu_kernels/simd/exp_double.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/support/min.hpp"
#include "cpu_kernels/support/selection.hpp"

namespace inlay::cpu {

template <class Level> struct Candidates {
  std::int32_t* id;
  float* logit;
  double* weight;  // exp((logit - max) / temperature)
  double* key;     // of the typical stage
  std::int32_t* heap;
  index count = 0;

  bool likelier(index a, index b) const { return logit[a] != logit[b] ? logit[a] > logit[b] : id[a] < id[b]; }
  // The largest of logit[begin..end).
  float most(index begin, index end) const {
    using F = simd::Floats<Level>;
    F largest(-std::numeric_limits<float>::infinity());
    index i = begin;
    for (; i + F::size <= end; i += F::size) largest = max(largest, F::load(logit + i));
    float result = reduce_max(largest);
    for (; i < end; ++i) result = logit[i] > result ? logit[i] : result;
    return result;
  }
  index likeliest() const {
    const float largest = most(0, count);
    index best = 0;
    while (logit[best] != largest) ++best;
    return best;
  }

  template <class Keep> INLAY_INLINE void keep_if(Keep&& keep) {
    index kept = 0;
    for (index i = 0; i < count; ++i)
      if (keep(i)) move(i, kept++);
    count = kept;
  }
  INLAY_INLINE void move(index from, index to) {
    id[to] = id[from];
    logit[to] = logit[from];
    weight[to] = weight[from];
  }
  // A stretch without a logit as large is passed over in registers.
  void keep_likeliest(index cut) {
    constexpr index stretch = 64;
    const float v = logit[cut];
    const std::int32_t last = id[cut];
    index kept = 0;
    for (index begin = 0; begin < count; begin += stretch) {
      const index end = min(begin + stretch, count);
      if (most(begin, end) < v) continue;
      for (index i = begin; i < end; ++i)
        if (logit[i] > v || (logit[i] == v && id[i] <= last)) move(i, kept++);
    }
    count = kept;
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

  // z_i = (logit - max) / temperature. body(i, z, n) for n of them from i on: eight, then the rest with zeros
  // behind it. Loops of a constant count: others stay scalar at -O2.
  template <class Body> INLAY_INLINE void exponents(double temperature, Body&& body) const {
    constexpr index width = simd::exp_width;
    const double largest = most(0, count);
    double z[width];
    index i = 0;
    for (; i + width <= count; i += width) {
      for (index k = 0; k < width; ++k) z[k] = (static_cast<double>(logit[i + k]) - largest) / temperature;
      body(i, z, width);
    }
    for (index k = 0; k < width; ++k)
      z[k] = i + k < count ? (static_cast<double>(logit[i + k]) - largest) / temperature : 0;
    if (i < count) body(i, z, count - i);
  }
  // Candidates whose weight is zero are gone afterwards.
  void weigh(double temperature) {
    constexpr index width = simd::exp_width;
    double least[width];
    for (index k = 0; k < width; ++k) least[k] = 1;
    exponents(temperature, [&](index i, const double* z, index n) {
      double w[width];
      simd::exp_not_positive(z, w);
      for (index k = 0; k < width; ++k) least[k] = w[k] < least[k] ? w[k] : least[k];
      if (n == width)
        __builtin_memcpy(weight + i, w, sizeof w);
      else
        for (index k = 0; k < n; ++k) weight[i + k] = w[k];
    });
    bool positive = true;
    for (index k = 0; k < width; ++k) positive = positive && least[k] > 0;
    if (!positive) keep_if([&](index k) { return weight[k] > 0; });
  }

  void keep_sigma(double n) {
    for (index i = 0; i < count; ++i) key[i] = logit[i];
    const double mean = sum(key, count) / static_cast<double>(count);
    for (index i = 0; i < count; ++i) key[i] = (key[i] - mean) * (key[i] - mean);
    const double sigma = __builtin_sqrt(sum(key, count) / static_cast<double>(count));
    const double low = most(0, count) - n * sigma;
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
    exponents(temperature, [&](index i, const double* z, index n) {
      for (index k = 0; k < n; ++k) key[i + k] = z[k];
    });
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

  // Candidates below (1 - mass) / count of the whole weigh less than 1 - mass together, so those above reach the
  // mass without them. Those fall into bins by their logit; only the bin in which the mass is reached needs an order.
  void keep_mass(double mass) {
    const double all = total();
    constexpr double margin = 0.999;  // for the roundings of the sums
    const double low = margin * (1 - mass) * all / static_cast<double>(count);
    const float largest = most(0, count);
    float smallest = largest;
    index size = 0;
    for (index i = 0; i < count; ++i)
      if (weight[i] >= low) {
        heap[size++] = static_cast<std::int32_t>(i);
        smallest = logit[i] < smallest ? logit[i] : smallest;
      }

    constexpr index bins = 512;
    double of_bin[bins] = {};
    // In double: the difference of two floats may be beyond them.
    const double from = largest, scale = largest > smallest ? (bins - 1) / (from - smallest) : 0;
    const auto bin = [&](index i) { return static_cast<index>((from - logit[i]) * scale); };
    for (index h = 0; h < size; ++h) of_bin[bin(heap[h])] += weight[heap[h]];
    const double target = mass * all;
    double reached = 0;
    index last = 0;
    while (last + 1 < bins && reached + of_bin[last] < target) reached += of_bin[last++];
    while (last > 0 && of_bin[last] == 0) reached -= of_bin[--last];  // sums rounded below the target
    index inside = 0;
    for (index h = 0; h < size; ++h)
      if (bin(heap[h]) == last) heap[inside++] = heap[h];

    const auto before = [&](index a, index b) { return likelier(a, b); };
    make_heap(heap, inside, before);
    index cut = 0;
    for (index taken = 0; taken < inside && (taken == 0 || reached < target); ++taken)
      reached += weight[cut = pop_heap(heap, inside - taken, before)];
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
      const index end = min(begin + block, count);
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
