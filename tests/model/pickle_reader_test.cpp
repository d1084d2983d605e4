#include "model/pickle_reader.hpp"

#include <gmock/gmock.h>

#include <random>

#include "config/result.hpp"
#include "tests/model/support/pickle_assembler.hpp"

namespace tutti {
namespace {

using test::little_endian;
using test::PickleAssembler;
using test::state_dict_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

/// `pickle` is refused with a message that has all of `parts`.
void expect_refused(const std::string& pickle, const std::string& part) {
  EXPECT_THAT([&] { Pickle("final.pt", pickle); },
              ThrowsMessage<SetupError>(AllOf(StartsWith("final.pt: byte "), HasSubstr(part))));
}

const PickleDict& dict(const PickleValue& value) { return *std::get<PickleDict*>(value); }
const PickleSequence& sequence(const PickleValue& value) { return *std::get<PickleSequence*>(value); }

TEST(Pickle, ReadsEveryConstant) {
  const Pickle pickle("final.pt", PickleAssembler()
                                      .raw("]")
                                      .raw("(")
                                      .raw("N\x88\x89")
                                      .raw("K\xff")
                                      .raw(std::string_view("M\x00\x80", 3))
                                      .raw("J\xfe\xff\xff\xff")
                                      .integer(-(int64_t{1} << 40))
                                      .raw(std::string_view("\x8a\x00", 2))
                                      .raw(std::string_view("G\xbf\xf8\0\0\0\0\0\0", 9))
                                      .text("\xe2\x96\x81")
                                      .raw("e")
                                      .stop());
  EXPECT_THAT(sequence(pickle.root()).items,
              ElementsAre(std::monostate{}, true, false, int64_t{255}, int64_t{32768}, int64_t{-2},
                          -(int64_t{1} << 40), int64_t{0}, -1.5, std::string_view("\xe2\x96\x81")));
}

TEST(Pickle, ReadsNestedContainersAndTheMemo) {
  const Pickle pickle("final.pt", PickleAssembler()
                                      .raw("}q\x01")
                                      .text("a")
                                      .raw("r")
                                      .raw(little_endian(uint32_t{70000}))
                                      .raw("K\x01\x85s(h\x01")
                                      .raw("j")
                                      .raw(little_endian(uint32_t{70000}))
                                      .raw("]K\x02")
                                      .raw("a\x86t")
                                      .stop());
  const auto& outer = sequence(pickle.root()).items;
  ASSERT_EQ(outer.size(), 2U);
  const auto& inner = dict(outer[0]).items;
  ASSERT_EQ(inner.size(), 1U);
  EXPECT_EQ(inner[0].first, PickleValue(std::string_view("a")));
  EXPECT_THAT(sequence(inner[0].second).items, ElementsAre(int64_t{1}));
  const auto& pair = sequence(outer[1]).items;
  EXPECT_EQ(pair[0], PickleValue(std::string_view("a")));
  EXPECT_THAT(sequence(pair[1]).items, ElementsAre(int64_t{2}));
}

TEST(Pickle, ReadsATensorAsAViewOfAStorage) {
  const Pickle pickle("final.pt", state_dict_of({.size = {4}, .stride = {1}, .offset = 2, .key = "17"}));
  const auto& items = dict(pickle.root()).items;
  ASSERT_EQ(items.size(), 1U);
  const PickleTensor& tensor = *std::get<PickleTensor*>(items[0].second);
  EXPECT_EQ(tensor.storage->type->element, "float32");
  EXPECT_EQ(tensor.storage->key, "17");
  EXPECT_EQ(tensor.storage->elements, 6);
  EXPECT_EQ(tensor.offset, 2);
  EXPECT_THAT(tensor.size, ElementsAre(4));
  EXPECT_THAT(tensor.stride, ElementsAre(1));
}

TEST(Pickle, ReadsAParameterAsItsTensor) {
  const Pickle pickle("final.pt", PickleAssembler()
                                      .global("torch._utils", "_rebuild_parameter")
                                      .raw("(")
                                      .tensor({})
                                      .raw("\x88}tR")
                                      .stop());
  EXPECT_TRUE(std::holds_alternative<PickleTensor*>(pickle.root()));
}

TEST(Pickle, IgnoresTheAttributesOfAnOrderedDict) {
  const Pickle pickle(
      "final.pt",
      PickleAssembler().global("collections", "OrderedDict").raw(")R}").text("_metadata").raw("}sb").stop());
  EXPECT_TRUE(dict(pickle.root()).items.empty());
}

TEST(Pickle, SurvivesContainersThatHoldThemselves) {
  const Pickle pickle("final.pt", PickleAssembler().raw("]q\x01h\x01").raw("a").stop());
  EXPECT_EQ(sequence(pickle.root()).items[0], pickle.root());
}

TEST(Pickle, ReadsNestingOfAnyDepthWithoutRecursion) {
  constexpr size_t depth = 500'000;
  const Pickle pickle("final.pt",
                      PickleAssembler().raw(std::string(depth, ']') + std::string(depth - 1, 'a')).stop());
  EXPECT_EQ(sequence(pickle.root()).items.size(), 1U);
}

TEST(Pickle, RefusesGlobalsByNameAndListsThoseAllowed) {
  const auto expected = HasSubstr(
      "global 'os.system' is not allowed; only collections.OrderedDict, torch._utils._rebuild_tensor_v2, "
      "torch._utils._rebuild_parameter, torch.FloatStorage, torch.DoubleStorage, torch.HalfStorage, "
      "torch.BFloat16Storage, torch.LongStorage, torch.IntStorage are");
  EXPECT_THAT(
      [] { Pickle("final.pt", PickleAssembler().global("os", "system").text("id").raw("\x85R").stop()); },
      ThrowsMessage<SetupError>(expected));
  expect_refused(PickleAssembler().global("builtins", "eval").stop(), "'builtins.eval'");
  expect_refused(PickleAssembler().global("torch", "load").stop(), "'torch.load'");
  expect_refused(PickleAssembler().global("torch._utils", "_rebuild_tensor_v3").stop(), "_rebuild_tensor_v3");
}

TEST(Pickle, KeepsTerminalControlOutOfItsMessages) {
  expect_refused(PickleAssembler().global("os\x1b[2J", std::string(500, 'x')).stop(), "'os?[2J.xxx");
  expect_refused(PickleAssembler().global("os\x1b[2J", std::string(500, 'x')).stop(),
                 "xxx...' is not allowed");
}

TEST(Pickle, RefusesOtherOpcodesByName) {
  expect_refused(PickleAssembler().text("os").text("system").raw("\x93").stop(),
                 "opcode STACK_GLOBAL (0x93)");
  expect_refused(PickleAssembler().raw("\x82\x01").stop(), "opcode EXT1 (0x82)");
  expect_refused(PickleAssembler().raw("\x83\x01\x01").stop(), "opcode EXT2 (0x83)");
  expect_refused(PickleAssembler().raw("(ios\nsystem\n").stop(), "opcode INST (0x69)");
  expect_refused(PickleAssembler().raw("(o").stop(), "opcode OBJ (0x6f)");
  expect_refused(PickleAssembler().raw("Pstorage\n").stop(), "opcode PERSID (0x50)");
  expect_refused(PickleAssembler().raw(")\x81").stop(), "opcode NEWOBJ (0x81)");
}

TEST(Pickle, RefusesEveryOpcodeItDoesNotKnow) {
  constexpr std::string_view known = "(.JKMNQRXabcehjqrstu)]}G\x80\x85\x86\x87\x88\x89\x8a";
  for (int opcode = 0; opcode < 256; ++opcode) {
    const char byte = static_cast<char>(opcode);
    if (known.find(byte) != std::string_view::npos) continue;
    expect_refused(PickleAssembler().raw({&byte, 1}).stop(), "is not allowed");
  }
}

TEST(Pickle, RefusesOtherProtocols) {
  expect_refused("\x80\x04.", "pickle protocol 4 is not supported; torch.save writes protocol 2");
}

TEST(Pickle, RefusesCallsOfAnythingButTheThreeBuilders) {
  expect_refused(PickleAssembler().text("os.system").raw(")R").stop(), "a string is called");
  expect_refused(PickleAssembler().global("torch", "FloatStorage").raw(")R").stop(),
                 "torch.FloatStorage is called; it only names a type");
  expect_refused(PickleAssembler().global("collections", "OrderedDict").raw("K\x01\x85R").stop(),
                 "OrderedDict is called with arguments");
  expect_refused(PickleAssembler().global("collections", "OrderedDict").raw("NR").stop(),
                 "a global is called with None");
}

TEST(Pickle, RefusesPersistentIdsThatAreNotStorages) {
  expect_refused(PickleAssembler().text("storage").raw("Q").stop(), "a persistent id is a string");
  expect_refused(PickleAssembler().raw(")Q").stop(), "a persistent id has no argument 0");
  expect_refused(PickleAssembler().text("module").raw("\x85Q").stop(), "of kind 'module'");
  expect_refused(PickleAssembler().text("storage").raw("K\x01\x86Q").stop(),
                 "argument 1 of a persistent id is an integer; a global is expected");
  expect_refused(PickleAssembler().text("storage").global("collections", "OrderedDict").raw("\x86Q").stop(),
                 "collections.OrderedDict is not a type of storage");
  expect_refused(
      PickleAssembler().text("storage").global("torch", "FloatStorage").text("0").raw("\x87Q").stop(),
      "a persistent id has no argument 4");
}

TEST(Pickle, RefusesTensorsOfTheWrongParts) {
  const auto rebuild = [] { return PickleAssembler().global("torch._utils", "_rebuild_tensor_v2"); };
  expect_refused(rebuild().raw(")R").stop(), "_rebuild_tensor_v2 has no argument 0");
  expect_refused(rebuild().raw("K\x01\x85R").stop(), "is an integer; a storage is expected");
  expect_refused(rebuild().raw("(").storage("FloatStorage", "0", 6).raw("NtR").stop(),
                 "argument 1 of _rebuild_tensor_v2 is None; an integer is expected");
  expect_refused(rebuild().raw("(").storage("FloatStorage", "0", 6).raw("K\x01(NtK\x01tR").stop(),
                 "is None; an integer is expected");
  expect_refused(state_dict_of({.size = {1, 1, 1, 1, 1, 1}}), "a tensor has 6 dimensions; at most 5");
}

TEST(Pickle, RefusesWhatDoesNotFitOnTheStack) {
  expect_refused(PickleAssembler().stop(), "the stack is empty");
  expect_refused(PickleAssembler().raw("\x85").stop(), "the stack is empty");
  expect_refused(PickleAssembler().raw("K\x01(\x85").stop(), "the stack is empty");
  expect_refused(PickleAssembler().raw("t").stop(), "there is no mark");
  expect_refused(PickleAssembler().raw("q\x01").stop(), "the stack is empty");
  expect_refused(PickleAssembler().raw("h\x01").stop(), "memo entry 1 does not exist");
  expect_refused(PickleAssembler().raw("](NNu").stop(), "a dict is expected");
  expect_refused(PickleAssembler().raw("}(Nu").stop(), "a key has no value");
  expect_refused(PickleAssembler().raw("}Na").stop(), "a list is expected");
  expect_refused(PickleAssembler().raw("]}b").stop(), "BUILD gives attributes to a list or tuple");
}

TEST(Pickle, RefusesLengthsBeyondTheFile) {
  expect_refused(PickleAssembler().raw("X\xff\xff\xff\xff").raw("abc").stop(),
                 "4294967295 bytes are wanted, 4 are left");
  expect_refused(PickleAssembler().raw("J\x01").stop(), "4 bytes are wanted, 2 are left");
  expect_refused(PickleAssembler().raw("\x8a\x09").raw("123456789").stop(), "more than 64 bits");
  expect_refused(
      "\x80\x02"
      "cos",
      "a name has no end");
  expect_refused(
      "\x80\x02"
      "N",
      "1 bytes are wanted, 0 are left");
  expect_refused("", "1 bytes are wanted, 0 are left");
}

TEST(Pickle, RefusesMoreValuesThanItsCap) {
  expect_refused(PickleAssembler().raw(std::string(Pickle::max_values + 1, 'N')).stop(),
                 "more than 2000000 values");
  expect_refused(PickleAssembler().raw(std::string(Pickle::max_values + 1, '(')).stop(),
                 "more than 2000000 values");
}

TEST(Pickle, RefusesMoreMemoEntriesThanItsCap) {
  PickleAssembler pickle;
  pickle.raw("N");
  for (uint32_t i = 0; i <= Pickle::max_memo; ++i) pickle.raw("r").raw(little_endian(i));
  expect_refused(pickle.stop(), "more than 1000000 memo entries");
}

TEST(Pickle, RefusesMoreBytesThanItsCap) {
  expect_refused(std::string(Pickle::max_bytes + 1, 'N'), "at most 33554432 are accepted");
}

TEST(Pickle, RefusesEveryTruncation) {
  const std::string whole = state_dict_of({});
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(Pickle("final.pt", whole.substr(0, length)), SetupError) << length;
  }
}

TEST(Pickle, ReadsOrRefusesEveryMutation) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string whole = PickleAssembler()
                                .global("collections", "OrderedDict")
                                .raw(")Rq\x01(")
                                .text("a")
                                .tensor({})
                                .text("b")
                                .tensor({.size = {}, .stride = {}, .type = "LongStorage", .key = "1"})
                                .raw("u}")
                                .text("_metadata")
                                .raw("h\x01sb")
                                .stop();
  size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string mutated = whole;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      mutated[random() % mutated.size()] = static_cast<char>(random());
    }
    try {
      const Pickle pickle("final.pt", mutated);
      EXPECT_FALSE(type_name(pickle.root()).empty());
    } catch (const SetupError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace tutti
