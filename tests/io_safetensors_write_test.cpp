// SPDX-License-Identifier: Apache-2.0
// .safetensors files as this library writes them.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/io/safetensors.hpp"
#include "tools/io/scratch.hpp"

namespace siattn::io {
namespace {

class IoSafetensorsWrite : public testing::Test {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_ / "t.safetensors";
};

TEST_F(IoSafetensorsWrite, ListsUpToADozenNames) {
  std::vector<Tensor> tensors;
  std::vector<NamedTensor> named;
  for (int i = 0; i < 14; ++i) tensors.push_back(*Tensor::zeros(DType::float32, {1}));
  for (int i = 0; i < 14; ++i)
    named.push_back({std::string(1, static_cast<char>('a' + i)), &tensors[static_cast<std::size_t>(i)]});
  AtomicFile file = *AtomicFile::create(path_);
  ASSERT_TRUE(write_safetensors(file, named).ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(
      SafetensorsFile::open(path_)->read("x").status().message(),
      path_ + ": has no tensor 'x'; it has 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l' and 2 more");
}

TEST_F(IoSafetensorsWrite, BadNamesAreNotWritten) {
  const Tensor tensor = *Tensor::zeros(DType::float32, {1});
  const auto refused = [&](const std::vector<NamedTensor>& tensors, const Metadata& metadata = {}) {
    AtomicFile file = *AtomicFile::create(path_);
    return write_safetensors(file, tensors, metadata).message();
  };
  EXPECT_EQ(refused({{"q", &tensor}, {"q", &tensor}}), path_ + ": tensor name 'q' is there twice");
  for (const std::string name : {"", "\xff", "__metadata__"}) {
    EXPECT_EQ(refused({{name, &tensor}}).find(path_ + ": tensor name "), 0u);
    EXPECT_EQ(refused({{"q", &tensor}}, {{name, "words"}}).find(path_ + ": metadata key "), 0u);
  }
  EXPECT_EQ(refused({}, {{"a", "\xff"}}), path_ + ": metadata 'a' is no UTF-8: '\\xff'");
  EXPECT_EQ(refused({}, {{"a", "1"}, {"a", "1"}}), path_ + ": metadata key 'a' is there twice");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{});
}

TEST_F(IoSafetensorsWrite, RoundTripOfAnyTensors) {
  EXPECT_TRUE(rc::check("what is written is read", [&] {
    const auto names = *rc::gen::container<std::set<std::string>>(
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab:/\"\\ \n\0", 9)))));
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const DType dtype = *rc::gen::element(DType::float32, DType::float64, DType::float16, DType::bfloat16);
      const auto rank = *rc::gen::inRange<std::size_t>(0, 5);
      Tensor tensor = *Tensor::zeros(dtype, *rc::gen::container<Shape>(rank, rc::gen::inRange<std::int64_t>(0, 4)));
      const auto bytes = *rc::gen::container<std::string>(tensor.bytes(), rc::gen::arbitrary<char>());
      if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
      tensors.push_back(std::move(tensor));
    }
    std::vector<NamedTensor> named;
    for (const std::string& name : names) named.push_back({name, &tensors[named.size()]});
    AtomicFile file = *AtomicFile::create(path_);
    RC_ASSERT(write_safetensors(file, named, {{"b", "2\n"}, {"a", ""}}).ok());
    RC_ASSERT(file.commit().ok());
    const Result<SafetensorsFile> back = SafetensorsFile::open(path_);
    RC_ASSERT(back.ok());
    RC_ASSERT(back->metadata() == (Metadata{{"b", "2\n"}, {"a", ""}}));
    RC_ASSERT(back->entries().size() == named.size());
    for (const NamedTensor& expected : named) {
      const Result<Tensor> tensor = back->read(expected.name);
      RC_ASSERT(tensor.ok());
      RC_ASSERT(tensor->dtype() == expected.tensor->dtype());
      RC_ASSERT(tensor->shape() == expected.tensor->shape());
      RC_ASSERT(std::memcmp(tensor->data(), expected.tensor->data(), tensor->bytes()) == 0);
    }
    for (const SafetensorsEntry& entry : back->entries()) {
      RC_ASSERT(entry.begin % size_of(*dtype_of_safetensors(entry.dtype)) == 0u);
    }
  }));
}

TEST_F(IoSafetensorsWrite, BytesOfAFile) {
  Tensor narrow = *Tensor::zeros(DType::bfloat16, {1});
  narrow.values<bfloat16>()[0] = bfloat16{0x3FC0};
  const Tensor wide = *Tensor::zeros(DType::float32, {1, 2});
  AtomicFile file = *AtomicFile::create(path_);
  ASSERT_TRUE(write_safetensors(file, std::vector<NamedTensor>{{"n", &narrow}, {"w", &wide}}, {{"tau", "10"}}).ok());
  ASSERT_TRUE(file.commit().ok());
  std::string header = R"({"__metadata__":{"tau":"10"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                       R"("n":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]}})";
  header.resize(184, ' ');
  EXPECT_EQ(read_bytes(path_), std::string("\xb8\0\0\0\0\0\0\0", 8) + header + std::string(8, '\0') + "\xc0\x3f");
}

}  // namespace
}  // namespace siattn::io
