// Checked mode's verbs, taken down with their operands as they are issued.
#pragma once

#include <string_view>

#include "tile_machine/run/checked_core.hpp"
#include "tile_machine/run/verb_log.hpp"

namespace inlay::npu {

class RecordingCore final : public CheckedCore {
 public:
  RecordingCore(CheckedRun& run, std::uint32_t stream, VerbLog::Stream& into);

  void copy(const Tensor& to, const Tensor& from, Site site) override;
  void copy(const NdTensor& to, const NdTensor& from, Site site) override;
  void nd2nz(const Tensor& to, const Tensor& from, Site site) override;
  void load_a(const Tensor& left, const Tensor& staged, Site site) override;
  void load_b(const Tensor& right, const Tensor& staged, bool transpose, Site site) override;
  void mma(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site) override;
  void drain(const Tensor& to, const Tensor& acc, const DrainOptions& options, Site site) override;
  void vbinary(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, Site site) override;
  void vscalar(VectorOp op, const Tensor& dst, const Tensor& a, Scalar b, Site site) override;
  void vunary(VectorOp op, const Tensor& dst, const Tensor& a, Site site) override;
  void vcompare(Compare how, const Tensor& mask, const Tensor& a, Scalar b, Site site) override;
  void vselect(const Tensor& dst, const Tensor& mask, const Tensor& yes, const Tensor& no, Site site) override;
  void vreduce(VectorOp op, const Tensor& dst, const Tensor& a, Site site) override;
  void vreduce_columns(VectorOp op, const Tensor& dst, const Tensor& a, Site site) override;
  void vcast(const Tensor& dst, const Tensor& a, Round round, Site site) override;
  void viota(const Tensor& dst, Iota sequence, Site site) override;
  void vfill(const Tensor& dst, float value, Site site) override;
  double scalar_read(const Tensor& from, index row, index column, Site site) override;
  void barrier_all(Site site) override;
  void sync_all(Site site) override;

 private:
  void enqueue(const Entry& entry, std::vector<Footprint> footprints, std::function<void()> body) override;
  void dispatch(const Entry& sync) override;
  // What the verb of this name says of itself. Another one that comes before it, or in its place, is not described.
  void say(const char* verb, VectorOp op, std::initializer_list<Tensor> tensors, Scalar scalar = 0.0f,
           Compare how = Compare::less);

  VerbLog::Stream& into_;
  Verb next_;  // what the verb that is under way has said of itself
  std::string_view named_;
};

}  // namespace inlay::npu
