# Writes a C++ file that holds the catalogue's tables as text: cmake -DSOURCE_DIR=… -DOUTPUT=… -P embed.cmake
set(body "// Made by catalog/embed.cmake from catalog/*.tsv.\n#include \"core/fault/tables.hpp\"\n\nnamespace homeostat::fault::tables {\n")
foreach(table xid sxid nvlink5 nvlink_registers kernel decoded counters gpu actions policy models)
  file(READ ${SOURCE_DIR}/${table}.tsv text)
  string(APPEND body "const std::string_view ${table} = R\"TSV(${text})TSV\";\n")
endforeach()
string(APPEND body "}  // namespace homeostat::fault::tables\n")
file(WRITE ${OUTPUT} "${body}")
