// SPDX-License-Identifier: Apache-2.0
// .npy files: every variant that numpy writes, and headers that lie. The bytes are made by hand; those of numpy itself
// are quoted where a test says so.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "tools/io/npy.hpp"
#include "tools/io/npy_header.hpp"
#include "tools/io/scratch.hpp"

namespace {
int aligned_allocations = 0;  // only tensors ask for their alignment
}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ++aligned_allocations;
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit + (bytes == 0 ? unit : 0));
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }

namespace siattn::io {
namespace {

/// An .npy file: magic, version, length of the dictionary, the dictionary, the data.
std::string npy(std::string_view dictionary, std::string_view data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(dictionary.size() >> (8 * i) & 0xFF);
  return file.append(dictionary).append(data);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Each `unit` bytes in the other order.
std::string reversed(const std::string& bytes, std::size_t unit) {
  std::string result = bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) result[i] = bytes[i / unit * unit + unit - 1 - i % unit];
  return result;
}

class IoNpy : public testing::Test {
 protected:
  Result<Tensor> read(const std::string& bytes) {
    write_bytes(path_, bytes);
    return read_npy(path_);
  }

  /// The message without the path, after checks that every refusal passes.
  std::string refusal(const std::string& bytes) {
    const int before = aligned_allocations;
    const Result<Tensor> tensor = read(bytes);
    EXPECT_FALSE(tensor.ok());
    EXPECT_EQ(aligned_allocations, before) << "memory was taken for what is refused";
    const std::string& message = tensor.status().message();
    EXPECT_EQ(message.find(path_ + ": "), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message.substr(std::min(message.size(), path_.size() + 2));
  }

  template <class T>
  void expect(const std::string& bytes, const Shape& shape, const std::vector<T>& values) {
    const Result<Tensor> tensor = read(bytes);
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_EQ(tensor->dtype(), dtype_of<T>::value);
    EXPECT_EQ(tensor->shape(), shape);
    const std::span<const T> given = tensor->template values<T>();
    EXPECT_EQ(std::vector<T>(given.begin(), given.end()), values);
  }

  ScratchFolder folder_;
  std::string path_ = folder_ / "t.npy";
};

TEST_F(IoNpy, TypesAndByteOrders) {
  const std::vector<float> floats{1.5f, -2.0f};
  const std::vector<double> doubles{1.5, -2.0};
  const std::vector<float16> halves{{0x3E00}, {0xC000}};
  const std::vector<bfloat16> brains{{0x3FC0}, {0xC000}};
  const auto dictionary = [](std::string_view descr) {
    return std::string("{'descr': '").append(descr).append("', 'fortran_order': False, 'shape': (2,), }   \n");
  };
  expect(npy(dictionary("<f4"), bytes_of(floats)), {2}, floats);
  expect(npy(dictionary(">f4"), reversed(bytes_of(floats), 4)), {2}, floats);
  expect(npy(dictionary("<f8"), bytes_of(doubles)), {2}, doubles);
  expect(npy(dictionary(">f8"), reversed(bytes_of(doubles), 8)), {2}, doubles);
  expect(npy(dictionary("<f2"), bytes_of(halves)), {2}, halves);
  expect(npy(dictionary(">f2"), reversed(bytes_of(halves), 2)), {2}, halves);
  expect(npy(dictionary("<V2"), bytes_of(brains)), {2}, brains);
  expect(npy(dictionary("|V2"), bytes_of(brains)), {2}, brains);
}

TEST_F(IoNpy, VersionsAndSpellings) {
  const std::vector<float> values{1, 2, 3};
  const std::string usual = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  for (const int version : {1, 2, 3}) expect(npy(usual, bytes_of(values), version), {3}, values);
  for (const std::string dictionary : {"{'shape': (3,), 'fortran_order': False, 'descr': '<f4'}",
                                       "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(3,)}",
                                       " { 'fortran_order' : False , 'shape' : ( 3 , ) , 'descr' : '<f4' } \n\n",
                                       "{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }"}) {
    expect(npy(dictionary, bytes_of(values)), {3}, values);
  }
}

TEST_F(IoNpy, Shapes) {
  const auto dictionary = [](std::string_view shape) {
    return std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ").append(shape).append(", }");
  };
  expect(npy(dictionary("()"), bytes_of<float>({7})), {}, std::vector<float>{7});
  expect(npy(dictionary("(3,)"), bytes_of<float>({1, 2, 3})), {3}, std::vector<float>{1, 2, 3});
  expect(npy(dictionary("(0, 4)"), ""), {0, 4}, std::vector<float>{});
  expect(npy(dictionary("(0,)"), ""), {0}, std::vector<float>{});
  expect(npy(dictionary("(1, 2, 1, 1, 1)"), bytes_of<float>({1, 2})), {1, 2, 1, 1, 1}, std::vector<float>{1, 2});
}

TEST_F(IoNpy, FortranOrderIsTransposed) {
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) lies in the file column by column.
  const std::string two = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
  expect(npy(two, bytes_of<float>({1, 4, 2, 5, 3, 6})), {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const std::string big = "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }";
  expect(npy(big, reversed(bytes_of<float>({1, 4, 2, 5, 3, 6}), 4)), {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  // [i, j, k] holds 100 i + 10 j + k, of shape (2, 3, 2).
  const std::string three = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 2), }";
  expect(npy(three, bytes_of<double>({0, 100, 10, 110, 20, 120, 1, 101, 11, 111, 21, 121})), {2, 3, 2},
         std::vector<double>{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121});
  expect(npy("{'descr': '<f2', 'fortran_order': True, 'shape': (0, 3), }", ""), {0, 3}, std::vector<float16>{});
  expect(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (), }", bytes_of<float>({7})), {},
         std::vector<float>{7});
}

TEST_F(IoNpy, OtherTypesAreRefused) {
  for (const char* descr :
       {"<i4", "|O", "<u2", "|b1", "<c8", "<f16", "f4", "float32", "<U3", "|S2", "<V4", ">V2", ""}) {
    const std::string message =
        refusal(npy(std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (1,), }", "1234"));
    EXPECT_EQ(message, std::string("dtype '") + descr +
                           "', expected one of '<f4', '<f8', '<f2', '>f4', '>f8', '>f2', or '<V2' or '|V2' for bf16");
    EXPECT_EQ(read_npy(path_).status().code(), StatusCode::unsupported);
  }
  EXPECT_EQ(refusal(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"))
                .find("dtype is a structure of fields, expected one of '<f4'"),
            0u);
}

TEST_F(IoNpy, SizesThatLieAreRefused) {
  const auto file = [](std::string_view shape, std::size_t bytes) {
    return npy(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ").append(shape).append(", }"),
               std::string(bytes, '\1'));
  };
  EXPECT_EQ(refusal(file("(2, 2)", 15)), "15 bytes of data after the header, expected 16 for f32 of shape [2, 2]");
  EXPECT_EQ(refusal(file("(2, 2)", 17)), "17 bytes of data after the header, expected 16 for f32 of shape [2, 2]");
  EXPECT_EQ(refusal(file("(0, 4)", 4)), "4 bytes of data after the header, expected 0 for f32 of shape [0, 4]");
  EXPECT_EQ(refusal(file("(99999999999, 99999999999)", 16)),
            "shape [99999999999, 99999999999] at 32 bits an element takes more than 2^64 bits, expected less");
  EXPECT_EQ(refusal(file("(4294967296, 4294967296)", 16)),
            "shape [4294967296, 4294967296] at 32 bits an element takes more than 2^64 bits, expected less");
  EXPECT_EQ(refusal(file("(1000000000000,)", 16)),
            "16 bytes of data after the header, expected 4000000000000 for f32 of shape [1000000000000]");
  EXPECT_EQ(refusal(file("(0, 4294967296, 4294967296)", 0)).find("shape [0, 4294967296, 4294967296] at 32"), 0u);
  for (const char* extent : {"-1", "-0", "9223372036854775808", "99999999999999999999999", "007"}) {
    EXPECT_EQ(refusal(file(std::string("(") + extent + ", 4)", 16)),
              std::string("shape has extent ") + extent + ", expected an integer from 0 to 2^63 - 1");
  }
}

TEST_F(IoNpy, BadDictionariesAreRefused) {
  const auto message = [&](const std::string& dictionary) { return refusal(npy(dictionary, "1234")); };
  const std::string rest = "'fortran_order': False, 'shape': (1,)}";
  EXPECT_EQ(message("{'descr': '<f4', 'descr': '<f4', " + rest), "header has key 'descr' twice");
  EXPECT_EQ(message("{'descr': '<f4', 'colour': 'red', " + rest),
            "header has key 'colour', expected 'descr', 'fortran_order' and 'shape'");
  EXPECT_EQ(message("{" + rest), "header has no key 'descr'");
  EXPECT_EQ(message("{'descr': '<f4', 'fortran_order': False}"), "header has no key 'shape'");
  EXPECT_EQ(message("{}"), "header has no key 'descr'");
  EXPECT_EQ(message(""), "header, byte 0: it ends, expected '{'");
  EXPECT_EQ(message("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}"), "shape (1) is no tuple, expected (1,)");
  for (const char* dictionary : {"[]",
                                 "{,}",
                                 "{'descr'}",
                                 "{'descr': }",
                                 "{'descr': <f4}",
                                 "{'descr': '<f4' 'shape': (1,)}",
                                 "{'descr': '<f4",
                                 "{descr: '<f4'}",
                                 "{'descr': '\\x3cf4'}",
                                 "{'shape': 1}",
                                 "{'shape': (,)}",
                                 "{'shape': (1,,2)}",
                                 "{'shape': (1 2)}",
                                 "{'shape': (1.5,)}",
                                 "{'shape': (1e3,)}",
                                 "{'shape': (1L,)}",
                                 "{'shape': (+1,)}",
                                 "{'shape': (1_0,)}",
                                 "{'shape': (0x1,)}",
                                 "{'shape': [1]}",
                                 "{'shape': (1,)",
                                 "{'shape': (((((((((",
                                 "{'fortran_order': 0}",
                                 "{'fortran_order': 'False'}",
                                 "{'fortran_order': Falsehood}",
                                 "{'fortran_order': T}"}) {
    message(dictionary);
  }
  EXPECT_EQ(message("{'descr': '<f4', " + rest + " x"), "header, byte 56: found 'x', expected nothing after '}'");
  EXPECT_EQ(message("{'descr': '<f4', " + rest + '\0'), "header, byte 55: found '\\x00', expected nothing after '}'");
}

TEST_F(IoNpy, BadStartsAreRefused) {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234");
  EXPECT_EQ(refusal(""), "begins with '', expected \\x93NUMPY of an .npy file");
  EXPECT_EQ(refusal("PK\3\4 an .npz file"), "begins with 'PK\\x03\\x04 a', expected \\x93NUMPY of an .npy file");
  std::string bytes = good;
  bytes[6] = 4;
  EXPECT_EQ(refusal(bytes), ".npy version 4.0, expected 1.0, 2.0 or 3.0");
  bytes = good;
  bytes[7] = 1;
  EXPECT_EQ(refusal(bytes), ".npy version 1.1, expected 1.0, 2.0 or 3.0");
  bytes = good;
  bytes[9] = '\xff';
  EXPECT_EQ(refusal(bytes).find("header of 65"), 0u);
  bytes = good.substr(0, 6) + std::string("\2\0\xff\xff\xff\xff", 6) + good.substr(10);
  EXPECT_EQ(refusal(bytes), "header of 4294967295 bytes from byte 12, the file has " + std::to_string(bytes.size()));
  EXPECT_EQ(refusal(good.substr(0, 6) + std::string("\2\0\0\0\x20\0", 6) + std::string(1 << 21, ' ')),
            "header of 2097152 bytes, expected at most 1048576");
}

TEST_F(IoNpy, EveryPrefixIsRefused) {
  for (const int version : {1, 2}) {
    const std::string good =
        npy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }     \n", std::string(48, 'x'), version);
    ASSERT_TRUE(read(good).ok());
    for (std::size_t n = 0; n < good.size(); ++n) refusal(good.substr(0, n));
    refusal(good + "x");
  }
}

TEST_F(IoNpy, EveryCorruptedByteIsReadOrRefused) {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", std::string(24, 'x'));
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(value);
      const Result<Tensor> tensor = read(bytes);
      if (tensor.ok()) {
        EXPECT_EQ(tensor->bytes(), 24u);
      } else {
        EXPECT_NE(tensor.status().message(), "");
      }
    }
  }
}

TEST_F(IoNpy, AnyTextForADictionaryIsReadOrRefused) {
  EXPECT_TRUE(rc::check("no dictionary of Python's characters crashes", [] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("{}()',\": 01-<f4Tdescrshape\\\n")));
    const Result<NpyHeader> header = parse_npy_header(text);
    RC_ASSERT(header.ok() || !header.status().message().empty());
  }));
}

TEST_F(IoNpy, WritesWhatNumpyWrites) {
  Tensor tensor = *Tensor::zeros(DType::float32, {2, 3});
  tensor.values<float>()[1] = 1.5f;
  AtomicFile file = *AtomicFile::create(path_);
  ASSERT_TRUE(write_npy(file, tensor).ok());
  ASSERT_TRUE(file.commit().ok());
  // The bytes of numpy.save of the same array.
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  EXPECT_EQ(read_bytes(path_),
            npy(dictionary + std::string(117 - dictionary.size(), ' ') + "\n", bytes_of<float>({0, 1.5f, 0, 0, 0, 0})));
}

TEST_F(IoNpy, DictionariesOfEveryRank) {
  EXPECT_EQ(npy_header_text(DType::float64, {}), "{'descr': '<f8', 'fortran_order': False, 'shape': (), }");
  EXPECT_EQ(npy_header_text(DType::float16, {3}), "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }");
  EXPECT_EQ(npy_header_text(DType::bfloat16, {0, 4}), "{'descr': '<V2', 'fortran_order': False, 'shape': (0, 4), }");
  EXPECT_EQ(npy_header_text(DType::float32, {1, 2, 3}),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }");
}

TEST_F(IoNpy, TooManyAxesAreNotWritten) {
  AtomicFile file = *AtomicFile::create(path_);
  EXPECT_TRUE(write_npy(file, *Tensor::zeros(DType::float32, Shape(32, 1))).ok());
  const Status status = write_npy(file, *Tensor::zeros(DType::float32, Shape(33, 1)));
  EXPECT_EQ(status.message(), path_ + ": shape [1, 1, 1, 1, 1, 1, 1, 1, ...] has 33 axes, .npy takes at most 32");
}

TEST_F(IoNpy, RoundTripOfAnyTensor) {
  EXPECT_TRUE(rc::check("what is written is read", [&] {
    const DType dtype = *rc::gen::element(DType::float32, DType::float64, DType::float16, DType::bfloat16);
    const auto rank = *rc::gen::inRange<std::size_t>(0, 7);
    const Shape shape = *rc::gen::container<Shape>(rank, rc::gen::inRange<std::int64_t>(0, 4));
    Tensor tensor = *Tensor::zeros(dtype, shape);
    const auto bytes = *rc::gen::container<std::string>(tensor.bytes(), rc::gen::arbitrary<char>());
    if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
    AtomicFile file = *AtomicFile::create(path_);
    RC_ASSERT(write_npy(file, tensor).ok());
    RC_ASSERT(file.commit().ok());
    const Result<Tensor> back = read_npy(path_);
    RC_ASSERT(back.ok());
    RC_ASSERT(back->dtype() == dtype);
    RC_ASSERT(back->shape() == shape);
    RC_ASSERT(std::string_view(static_cast<const char*>(back->data()), back->bytes()) == bytes);
    RC_ASSERT((read_bytes(path_).size() - bytes.size()) % 64 == 0u);
  }));
}

}  // namespace
}  // namespace siattn::io
