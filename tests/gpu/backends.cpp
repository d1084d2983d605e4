#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

std::function<std::unique_ptr<Ops>()> cpu_backend(cpu::GemmChoice choice) {
  return [choice] { return make_cpu_ops(choice); };
}

}  // namespace

std::vector<Backend> serving_backends() {
  return {{.name = "Cpu", .make = cpu_backend(cpu::GemmChoice::automatic)},
          {.name = "CpuPanel", .make = cpu_backend(cpu::GemmChoice::panel)}};
}

std::vector<Backend> backends() {
  std::vector<Backend> all = serving_backends();
  all.push_back({.name = "CpuOnednn", .make = cpu_backend(cpu::GemmChoice::onednn)});
  return all;
}

}  // namespace tutti
