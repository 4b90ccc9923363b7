/* The terminal's size. */
#ifndef VANILLA_CTL_SCREEN_H
#define VANILLA_CTL_SCREEN_H

/* Of the terminal on stdout; else what COLUMNS and LINES say, else 132 and 50. */
unsigned screen_columns(void);
unsigned screen_lines(void);

#endif
