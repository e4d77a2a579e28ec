# SPDX-License-Identifier: Apache-2.0
# Tests of a cross build, run under the toolchain's emulator: GoogleTest from its source, which Debian ships beside the
# library, and those tests that need nothing else and say most about kernels.
add_subdirectory(/usr/src/googletest/googletest googletest EXCLUDE_FROM_ALL SYSTEM)
foreach(name IN ITEMS cpu_convert_test cpu_exp_test contract_determinism_test contract_numbers_test contract_state_test)
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE siattn_compile_options siattn siattn_verify OpenMP::OpenMP_CXX gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
add_test(NAME conform_quick COMMAND siattn_tool conform --quick --backend cpu)
foreach(isa IN LISTS SIATTN_CPU_ISAS)
  add_test(NAME object_${isa} COMMAND sh ${PROJECT_SOURCE_DIR}/cpu/check_object.sh ${isa} $<TARGET_OBJECTS:siattn_cpu_${isa}>)
  set_tests_properties(object_${isa} PROPERTIES ENVIRONMENT "NM=${CMAKE_NM};OBJDUMP=${CMAKE_OBJDUMP}")
endforeach()
