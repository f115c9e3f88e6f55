# Shared build rules: warnings, sanitizers, one static library per folder, one test program per library.
find_package(Threads REQUIRED)

add_library(homeostat_options INTERFACE)
target_compile_options(homeostat_options INTERFACE -Wall -Wextra -Werror -Wnon-virtual-dtor -Woverloaded-virtual)
# g++ 12.2 reports maybe-uninitialized and restrict inside libstdc++ for correct code (GCC bugs 105562, 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(homeostat_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
# clang-19 reports deprecations inside libstdc++ 12's own std::stable_sort.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(homeostat_options INTERFACE -Wno-deprecated-declarations)
endif()
target_include_directories(homeostat_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_compile_definitions(homeostat_options INTERFACE HOMEOSTAT_VERSION="${PROJECT_VERSION}")
target_link_libraries(homeostat_options INTERFACE Threads::Threads)
if(HOMEOSTAT_SANITIZE)
  target_compile_options(homeostat_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(homeostat_options INTERFACE -fsanitize=address,undefined)
endif()
if(HOMEOSTAT_FUZZ)
  target_compile_options(homeostat_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(HOMEOSTAT_MOLD mold)
if(HOMEOSTAT_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# homeostat_library(NAME SOURCES a.cpp … DEPS lib …): a static library of one folder.
function(homeostat_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC homeostat_options ${ARG_DEPS})
endfunction()

# homeostat_program(NAME SOURCES main.cpp DEPS lib …): one of the programs in build/bin.
function(homeostat_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE homeostat_options ${ARG_DEPS})
endfunction()

if(NOT TARGET doctest_main)
  add_library(doctest_main STATIC ${CMAKE_SOURCE_DIR}/tests/doctest_main.cpp)
  target_link_libraries(doctest_main PUBLIC homeostat_options)
endif()

# homeostat_test(NAME SOURCES a_test.cpp … DEPS lib …): a doctest program that ctest runs, in build/tests.
function(homeostat_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE doctest_main ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE HOMEOSTAT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS unit)
endfunction()
