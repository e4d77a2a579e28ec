# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, and the packages of CPack. docs/linking.md tells users.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/siattn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CITATION.cff
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Two export sets that both define siattn::siattn: the package includes the one that is asked for.
set(siattn_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/siattn)
install(TARGETS siattn EXPORT siattn_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS siattn_shared EXPORT siattn_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT siattn_static NAMESPACE siattn:: FILE siattnStatic.cmake DESTINATION ${siattn_package_dir})
install(EXPORT siattn_shared NAMESPACE siattn:: FILE siattnShared.cmake DESTINATION ${siattn_package_dir})

set(siattn_components cpu)
set(siattn_private_libraries ${OpenMP_CXX_LIB_NAMES})
if(SIATTN_HAS_ONEDNN)
  list(APPEND siattn_components onednn)
  list(APPEND siattn_private_libraries dnnl)
endif()
if(SIATTN_HAS_CUDA)
  list(APPEND siattn_components cuda)
  list(APPEND siattn_private_libraries ${CMAKE_DL_LIBS})
endif()
# What a C compiler has to be told, for the static form: the libraries of C++ itself.
set(siattn_cxx_libraries ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(FILTER siattn_cxx_libraries INCLUDE REGEX "^(stdc\\+\\+|c\\+\\+|m)$")
list(REMOVE_DUPLICATES siattn_cxx_libraries)
if(SIATTN_BUILD_TOOLS)
  list(APPEND siattn_components verify)
  install(TARGETS siattn_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/verify ${PROJECT_SOURCE_DIR}/reference
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/siattn-verify FILES_MATCHING PATTERN *.hpp)
  install(TARGETS siattn_verify EXPORT siattn_verify ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/siattn-verify)
  install(EXPORT siattn_verify NAMESPACE siattn:: FILE siattnVerify.cmake DESTINATION ${siattn_package_dir})
endif()

configure_file(${PROJECT_SOURCE_DIR}/cmake/siattnConfig.cmake.in ${PROJECT_BINARY_DIR}/package/siattnConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/siattnConfigVersion.cmake
                                 COMPATIBILITY ${siattn_compatibility})
install(FILES ${PROJECT_BINARY_DIR}/package/siattnConfig.cmake
              ${PROJECT_BINARY_DIR}/package/siattnConfigVersion.cmake DESTINATION ${siattn_package_dir})

# pkg-config: siattn links the shared library, siattn-static the other. The prefix is found from where the file lies.
set(siattn_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH siattn_pc_up /${siattn_pc_dir} /)
set(siattn_pc_libraries ${siattn_private_libraries} ${siattn_cxx_libraries})
list(TRANSFORM siattn_pc_libraries PREPEND -l)
list(JOIN siattn_pc_libraries " " siattn_pc_libraries)
foreach(name IN ITEMS siattn siattn-static)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${siattn_pc_dir})
endforeach()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_VENDOR "The siattn authors")
set(CPACK_PACKAGE_CONTACT "The siattn authors <siattn@invalid>")
set(CPACK_PACKAGE_FILE_NAME siattn-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "libdnnl-dev, libfmt-dev, nlohmann-json3-dev, libmpfr-dev, libboost1.81-dev, librandom123-dev")
include(CPack)
