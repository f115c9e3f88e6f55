// homeostat: the command line. This file only wires.
#include "cli/arguments.hpp"

int main(int argc, char** argv) { return homeostat::cli::run_command_line(argc, argv); }
