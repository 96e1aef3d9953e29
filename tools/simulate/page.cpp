// The words of docs/fidelity.md around its tables.
#include "tools/simulate/report.hpp"

namespace inlay::tools {
namespace {

constexpr const char* head = R"(# Fidelity: what the simulator predicts, beside what was published

`inlay simulate -o docs/fidelity.md` writes this page, the same bytes each time; a test writes it again and compares.
Nothing is computed by these devices: times come from the inputs below, through what plans and schedules use too
(`place_line` and `split_linear` of `include/inlay/exec/split/`, `run_steps` of `schedule/`, `best_buckets`).

An input is something that was measured of a part: a matrix product, a bandwidth, a wait. What whole models took is held
out: no number was fitted to it, except that vLLM-Ascend's modes take three tokens of a whole model as inputs. Who wrote
the rules and assumptions had read the published figures: these are no blind predictions. "Not found" is what no text of a
source says; figures of it that are pictures only were not read off.

## Inputs

| what | value | source |
|---|---|---|
| products on GPU and NPU of W4A16, six shapes, us | 4096 x 4096, 1 token 511/693, 128 7306/912, 256 10841/1884; 28672 x 4096, 1 token 1903/3886; 4096 x 14336, 1 token 1467/6506, 256 35231/23445 | HeteroLLM, table 3 |
| reached rate of the GPU | 1 TFLOPS | HeteroLLM, section 2.2 |
| arrays of the NPU: fewer tokens take as long | 32 x 32 | HeteroLLM, section 3.2 |
| order of the tensors of a product, worst over best | 6 at 14336 x 4096 | HeteroLLM, section 3.2 |
| bandwidth of one processor, of both | 43.3, 59.1 GB/s | HeteroLLM, sections 3.3 and 5.4 |
| clFinish; the poll of a flag | 400 us; 5 us | HeteroLLM, sections 3.1 and 4.3 ("a few microseconds") |
| a submit; what it takes more to an empty queue | 15, 75 us | middles of 10 to 20 and 50 to 100, as the design notes have them |
| graphs that the NPU has | 128, 256, 512, 1024 tokens | HeteroLLM, section 5.3.2 |
| building them | 152 ms + 1.9 ms a token | HeteroLLM, section 5.3.2: 408.4 ms at 135, 2050 ms at 1000 |
| products of INT8 on NPU and CPU | 0.9 to 4.1 ms, 4.2 to 19.6 ms | llm.npu, table 3 |
| a product per group over one per tensor | 9.4 | llm.npu, section 2.3: 8.1 to 10.7 |
| building and optimising a graph | 3.75 s, 11.9 s | llm.npu, figure 2: Qwen1.5-1.8B, Gemma-2B |
| outliers | 0.2% of channels, of 15% of layers | llm.npu, section 3.3 |
| streams of a device | 1800 | vllm-ascend, utils.py |
| a token with and without plans, at two lengths | 55.63, 125; 171 ms | vllm-ascend, issue 7723 |
| a wait between two pieces of a plan | 20 us | vllm-ascend, issue 13021 |

Assumed, for want of a figure: floats on llm.npu's CPU run at half the rate of its INT8; more than 64 rows of its NPU
are passes of 64; a product's time on the phone scales by outputs; at a ratio of sides between 1 and 3.5 the NPU's
factors of shape and order lie between 1 and those measured at 3.5, in proportion to the logarithm; llm.npu launches each
of its subgraphs once, which was decided with figure 19 in sight.

)";

constexpr const char* misses = R"(
## What it misses

- Ordinary synchronisation costs HeteroLLM more than its parts say: 24% of a prompt where 7% is predicted, and 4 times a
  token where a third is. What else a wait costs there is in no table.
- Tokens by table 3 come out at 0.6 of what was published: that table has each product alone, and what of it a
  queue hides is not published. By bandwidth alone they come out 1.1 too fast. What was published lies between, and no
  input tells where.
- The naive NPU is predicted as fast as the GPU, and was much slower; the order of the tensors is measured at one shape,
  and what norms and attention take on that NPU is not published.
- The solver cuts 4096 x 4096 at 256 tokens where HeteroLLM's leaves it to the NPU. Products were measured whole, and
  a part takes its share of them here; section 3.1 has a GPU reach less with smaller tensors.
- No order of subgraphs comes near the 0.7% that llm.npu reports: with subgraphs as the paper counts them and four
  chunks a fifth of the NPU's time is a wait at best, and the CPU waits more. Longest unlock is not better than chunk
  order here. How many chunks and which subgraphs figure 13 has is not said.
- Per-group products are 9.4 times slower for every model here; figure 19 has Gemma-2B lose half of that.
- Plans of vLLM-Ascend: host and device are taken as two numbers, of which the longer counts. At 768K tokens the device
  was slower with plans than without, which no such model says.

## What it cannot say

Power, heat and clocks that fall; memory that other programs use; accuracy; how a driver orders what it is given. A
ratio near 1 here says that parts add up to the whole on that phone, not that another phone does the same.

## Sources

Chen et al., *Characterizing Mobile SoC for Accelerating Heterogeneous LLM Inference* (HeteroLLM, HeteroInfer), SOSP
2025, arXiv:2501.14794v2: section numbers are of that text. Xu et al., *Fast On-device LLM Inference with NPUs* (llm.npu,
mllm-NPU), ASPLOS 2025, arXiv:2407.05858. vllm-project/vllm-ascend: vllm_ascend/utils.py, and issues 1168, 7723 and
13021.
)";

}  // namespace

std::string fidelity_page() { return head + heterollm_page() + "\n" + llm_npu_page() + "\n" + ascend_page() + misses; }

}  // namespace inlay::tools
