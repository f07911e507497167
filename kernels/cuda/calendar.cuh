// Calendar fields of days since 1970-01-01, in the proleptic Gregorian calendar.
//
// The conversion is Howard Hinnant's `civil_from_days` ("chrono-Compatible Low-Level Date
// Algorithms"): years begin in March, so that the leap day is the last one.

struct Civil {
    i32 year;
    i32 month;
    i32 day;
};

__device__ __forceinline__ Civil civil_of(i32 days) {
    i32 z = days + 719468;
    i32 era = (z >= 0 ? z : z - 146096) / 146097;
    u32 day_of_era = (u32)(z - era * 146097);
    u32 year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    u32 day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    u32 month = (5 * day_of_year + 2) / 153;
    Civil civil;
    civil.day = (i32)(day_of_year - (153 * month + 2) / 5 + 1);
    civil.month = (i32)(month < 10 ? month + 3 : month - 9);
    civil.year = (i32)year_of_era + era * 400 + (civil.month <= 2);
    return civil;
}

__device__ __forceinline__ bool is_leap(i32 year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

__device__ __forceinline__ i32 month_length(i32 year, i32 month) {
    return month == 2 ? 28 + is_leap(year) : 30 + ((month + (month >> 3)) & 1);
}

// The inverse of `civil_of`, also far beyond its days.
__device__ __forceinline__ i64 days_of(Civil civil) {
    i32 year = civil.year - (civil.month <= 2);
    i32 era = (year >= 0 ? year : year - 399) / 400;
    i32 year_of_era = year - era * 400;
    i32 day_of_year = (153 * (civil.month > 2 ? civil.month - 3 : civil.month + 9) + 2) / 5 + civil.day - 1;
    i32 day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (i64)era * 146097 + day_of_era - 719468;
}

// Moves days by at most 2^31 months; a day that the month does not have becomes its last.
__device__ __forceinline__ i64 moved_by_months(i32 days, i64 months) {
    Civil civil = civil_of(days);
    i64 index = (i64)civil.year * 12 + (civil.month - 1) + months;
    i64 year = floor_divide(index, 12ll);
    civil.year = (i32)year;
    civil.month = (i32)(index - year * 12) + 1;
    i32 length = month_length(civil.year, civil.month);
    if (civil.day > length) civil.day = length;
    return days_of(civil);
}

__device__ __forceinline__ i32 day_of_year(Civil civil) {
    i32 before = (367 * civil.month - 362) / 12;
    if (civil.month > 2) before -= is_leap(civil.year) ? 1 : 2;
    return before + civil.day;
}

// Monday is 1.
__device__ __forceinline__ i32 iso_weekday(i32 days) { return (i32)(((i64)days % 7 + 10) % 7) + 1; }

__device__ __forceinline__ i32 iso_week(i32 days) {
    // The week of a day is that of its Thursday.
    i32 thursday = days - iso_weekday(days) + 4;
    return (day_of_year(civil_of(thursday)) - 1) / 7 + 1;
}
