// A failure is told once in a shell pipeline: who reads from a command of ours that has failed, and
// told why, says nothing of the empty text it gets.
//
//   gshard-opt annotate typo.hlo | gshard-opt partition - | gshard-run -   one message, annotate's
//
// The sign is the size of the pipe, which the kernel keeps while anybody reads from it: a command
// that fails makes its pipe one page small. An empty text from others (cat, a script) is an error
// as any. Linux; where pipes have no size, every command tells what it sees.
#ifndef GSHARD_CMD_CLI_FAILED_PIPE_H_
#define GSHARD_CMD_CLI_FAILED_PIPE_H_

namespace gshard {

// Marks standard output, if it is a pipe, for `exit_code`; nothing for codes of commands that wrote
// a result.
void MarkFailedPipe(int exit_code);
// Is standard input a pipe from a command that has failed?
bool ReadsFromFailedPipe();

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_FAILED_PIPE_H_
