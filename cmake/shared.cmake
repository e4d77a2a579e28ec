# SPDX-License-Identifier: Apache-2.0
# libsiattn.so, and the target that siattn::siattn means.
include(GNUInstallDirs)

# Semantic versioning: before 1.0 a minor version may break what linked against the one before, later a major one.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(SIATTN_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  set(siattn_compatibility SameMinorVersion)
else()
  set(SIATTN_SOVERSION ${PROJECT_VERSION_MAJOR})
  set(siattn_compatibility SameMajorVersion)
endif()

# The very objects of the static library, linked: nothing is compiled twice.
add_library(siattn_shared SHARED ${PROJECT_SOURCE_DIR}/cmake/siattn.map)
set_target_properties(siattn_shared PROPERTIES
  OUTPUT_NAME siattn VERSION ${PROJECT_VERSION} SOVERSION ${SIATTN_SOVERSION} EXPORT_NAME siattn LINKER_LANGUAGE CXX
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/siattn.map)
target_compile_features(siattn_shared PUBLIC cxx_std_20)
target_include_directories(siattn_shared PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(siattn_shared PRIVATE $<BUILD_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,siattn>>)
target_link_options(siattn_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/siattn.map)
if(SIATTN_SANITIZE)
  target_link_options(siattn_shared PRIVATE -fsanitize=${SIATTN_SANITIZE})
else()
  target_link_options(siattn_shared PRIVATE LINKER:-z,defs)
endif()

if(BUILD_SHARED_LIBS)
  add_library(siattn::siattn ALIAS siattn_shared)
else()
  add_library(siattn::siattn ALIAS siattn)
  if(NOT SIATTN_INSTALL)
    set_target_properties(siattn_shared PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endif()
