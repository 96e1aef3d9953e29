// z = x + y as a kernel in Ascend C has it: queues of two slots between copies and the vector unit.
#include "tests/npu/kernels/ascend_c/kernel_operator.h"
#include "tests/npu/kernels/kernels.h"

using namespace AscendC;

namespace {

constexpr std::uint32_t tiles = 8, tile = 2048;
constexpr int depth = 2;

class KernelAdd {
 public:
  __aicore__ explicit KernelAdd(bool forgets_the_queue) : forgets_the_queue_(forgets_the_queue) {
    x_.SetGlobalBuffer("x", 0, tiles * tile);
    y_.SetGlobalBuffer("y", 65536, tiles * tile);
    z_.SetGlobalBuffer("z", 131072, tiles * tile);
    pipe_.InitBuffer(of_x_, depth, tile * sizeof(float), "x");
    pipe_.InitBuffer(of_y_, depth, tile * sizeof(float), "y");
    pipe_.InitBuffer(of_z_, depth, tile * sizeof(float), "z");
  }
  __aicore__ void Process() {
    for (std::uint32_t i = 0; i < tiles; ++i) {
      CopyIn(i);
      Compute();
      CopyOut(i);
    }
  }

 private:
  __aicore__ void CopyIn(std::uint32_t i) {
    LocalTensor<float> x = of_x_.AllocTensor<float>();
    DataCopy(x, GlobalTensor<float>(x_[i * tile]), tile);
    of_x_.EnQue(x);
    LocalTensor<float> y = of_y_.AllocTensor<float>();
    DataCopy(y, GlobalTensor<float>(y_[i * tile]), tile);
    if (forgets_the_queue_)
      held_ = y;
    else
      of_y_.EnQue(y);
  }
  __aicore__ void Compute() {
    LocalTensor<float> x = of_x_.DeQue<float>();
    LocalTensor<float> y = forgets_the_queue_ ? held_ : of_y_.DeQue<float>();
    LocalTensor<float> z = of_z_.AllocTensor<float>();
    Add(z, x, y, tile);
    of_z_.EnQue(z);
    of_x_.FreeTensor(x);
    of_y_.FreeTensor(y);
  }
  __aicore__ void CopyOut(std::uint32_t i) {
    LocalTensor<float> z = of_z_.DeQue<float>();
    DataCopy(GlobalTensor<float>(z_[i * tile]), z, tile);
    of_z_.FreeTensor(z);
  }

  const bool forgets_the_queue_;
  TPipe pipe_;
  TQue<TPosition::VECIN, depth> of_x_, of_y_;
  TQue<TPosition::VECOUT, depth> of_z_;
  GlobalTensor<float> x_, y_, z_;
  LocalTensor<float> held_;
};

}  // namespace

extern "C" void add_in_ascend_c(int forgets_the_queue) { KernelAdd(forgets_the_queue != 0).Process(); }
