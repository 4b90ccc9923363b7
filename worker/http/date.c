#include "worker/http/date.h"

#include <stdint.h>
#include <string.h>

#define DAY 86400
#define DATE_FIRST INT64_C(-62167219200) /* 0000-01-01T00:00:00Z, a Saturday */
#define DATE_LAST INT64_C(253402300799)  /* 9999-12-31T23:59:59Z */
#define DAYS_400_YEARS 146097

static void two_digits(char *out, unsigned n);

void http_date(time_t t, char out[HTTP_DATE_LEN])
{
    static const char weekdays[] = "Sat, Sun, Mon, Tue, Wed, Thu, Fri, ";
    static const char months[] = " Mar  Apr  May  Jun  Jul  Aug  Sep  Oct  Nov  Dec  Jan  Feb ";
    static const char gmt[4] = {' ', 'G', 'M', 'T'};
    int64_t s = t < DATE_FIRST ? DATE_FIRST : t > DATE_LAST ? DATE_LAST : t;
    unsigned days = (unsigned)((s - DATE_FIRST) / DAY), second = (unsigned)((s - DATE_FIRST) % DAY);

    /* Years that begin in March have their leap day last; counted from March of the year -400, 60 days before which
     * (31 + 29) its January began. */
    unsigned from_march = days + DAYS_400_YEARS - 60;
    unsigned era = from_march / DAYS_400_YEARS, of_era = from_march % DAYS_400_YEARS;
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month = (5 * of_year + 2) / 153; /* 0: March; five months from March on have 153 days, twice a year */
    unsigned day = of_year - (153 * month + 2) / 5 + 1;
    unsigned year = era * 400 + year_of_era - 400 + (month >= 10);

    memcpy(out, weekdays + (size_t)5 * (days % 7), 5);
    two_digits(out + 5, day);
    memcpy(out + 7, months + (size_t)5 * month, 5);
    two_digits(out + 12, year / 100);
    two_digits(out + 14, year % 100);
    out[16] = ' ';
    two_digits(out + 17, second / 3600);
    out[19] = ':';
    two_digits(out + 20, second / 60 % 60);
    out[22] = ':';
    two_digits(out + 23, second % 60);
    memcpy(out + 25, gmt, sizeof gmt);
}

static void two_digits(char *out, unsigned n)
{
    out[0] = (char)('0' + n / 10);
    out[1] = (char)('0' + n % 10);
}
