namespace Whimbrel.Http.Parsing;

/// <summary>Result of the conditions of a request.</summary>
internal enum ConditionVerdict
{
    /// <summary>The conditions hold, or there are none.</summary>
    Go,

    /// <summary>The client has the current version: 304.</summary>
    NotModified,

    /// <summary>The version differs from the client's: 412.</summary>
    Failed,
}

/// <summary>Evaluation of a request's conditions against entity tag and date (RFC 9110, 13), in the order of the
/// RFC.</summary>
internal static class HttpConditions
{
    /// <summary>Value for an unknown date.</summary>
    internal const long NoDate = long.MinValue;

    /// <param name="reader">Reader of the head.</param>
    /// <param name="head">Bytes of the head.</param>
    /// <param name="tag">Entity tag, with its quotes; empty for none.</param>
    /// <param name="modified">Time of the last modification, in seconds since 1970, or <see cref="NoDate"/>.</param>
    /// <param name="nowSeconds">Current time, in seconds since 1970.</param>
    internal static ConditionVerdict Judge(HttpReader reader, ReadOnlySpan<byte> head, ReadOnlySpan<byte> tag,
        long modified, long nowSeconds)
    {
        if (reader.IndexOf(HttpField.IfMatch) >= 0)
        {
            if (!Matches(reader, head, HttpField.IfMatch, tag, isStrong: true)) return ConditionVerdict.Failed;
        }
        else if (TryDate(reader, head, HttpField.IfUnmodifiedSince, modified, nowSeconds, out long unmodifiedSince)
            && modified > unmodifiedSince)
        {
            return ConditionVerdict.Failed;
        }

        bool isRead = reader.Verb is HttpVerb.Get or HttpVerb.Head;
        if (reader.IndexOf(HttpField.IfNoneMatch) >= 0)
        {
            if (!Matches(reader, head, HttpField.IfNoneMatch, tag, isStrong: false)) return ConditionVerdict.Go;
            return isRead ? ConditionVerdict.NotModified : ConditionVerdict.Failed;
        }

        bool isOld = isRead && TryDate(reader, head, HttpField.IfModifiedSince, modified, nowSeconds,
            out long modifiedSince) && modified <= modifiedSince;
        return isOld ? ConditionVerdict.NotModified : ConditionVerdict.Go;
    }

    /// <summary>Returns whether ranges may be sent: there is no If-Range, or it certainly names the current
    /// version.</summary>
    /// <param name="reader">Reader of the head.</param>
    /// <param name="head">Bytes of the head.</param>
    /// <param name="tag">Entity tag, with its quotes; empty for none.</param>
    /// <param name="modified">Time of the last modification, in seconds since 1970, or <see cref="NoDate"/>.</param>
    /// <param name="nowSeconds">Current time, in seconds since 1970.</param>
    internal static bool MaySendParts(HttpReader reader, ReadOnlySpan<byte> head, ReadOnlySpan<byte> tag, long modified,
        long nowSeconds)
    {
        int index = reader.IndexOf(HttpField.IfRange);
        if (index < 0) return true;
        if (reader.IndexOf(HttpField.IfRange, index + 1) >= 0) return false;
        ReadOnlySpan<byte> value = ValueOf(reader, head, index);
        if (value.StartsWith("\""u8)) return !tag.IsEmpty && value.SequenceEqual(tag);
        // Two versions may have a date of the current second.
        return HttpTime.TryRead(value, nowSeconds, out long date) && date == modified && modified < nowSeconds;
    }

    private static ReadOnlySpan<byte> ValueOf(HttpReader reader, ReadOnlySpan<byte> head, int index)
    {
        ref readonly HttpFieldPlace place = ref reader[index];
        return head.Slice(place.ValueStart, place.ValueLength);
    }

    private static bool TryDate(HttpReader reader, ReadOnlySpan<byte> head, HttpField field, long modified,
        long nowSeconds, out long date)
    {
        date = 0;
        int index = reader.IndexOf(field);
        return index >= 0 && modified != NoDate && reader.IndexOf(field, index + 1) < 0
            && HttpTime.TryRead(ValueOf(reader, head, index), nowSeconds, out date);
    }

    private static bool Matches(HttpReader reader, ReadOnlySpan<byte> head, HttpField field, ReadOnlySpan<byte> tag,
        bool isStrong)
    {
        for (int index = reader.IndexOf(field); index >= 0; index = reader.IndexOf(field, index + 1))
        {
            if (Lists(ValueOf(reader, head, index), tag, isStrong)) return true;
        }

        return false;
    }

    /// <summary>Returns whether a list of tags contains this one. Parsing stops at an error.</summary>
    internal static bool Lists(ReadOnlySpan<byte> list, ReadOnlySpan<byte> tag, bool isStrong)
    {
        if (list.SequenceEqual("*"u8)) return true;
        bool isWeak = IsWeak(tag);
        if (tag.IsEmpty || (isStrong && isWeak)) return false;
        ReadOnlySpan<byte> wanted = isWeak ? tag[2..] : tag;
        while (true)
        {
            list = list.TrimStart(" \t,"u8);
            bool isWeakHere = IsWeak(list);
            ReadOnlySpan<byte> quoted = isWeakHere ? list[2..] : list;
            if (!quoted.StartsWith("\""u8)) return false;
            int end = quoted[1..].IndexOf((byte)'"');
            if (end < 0) return false;
            if (!(isStrong && isWeakHere) && quoted[..(end + 2)].SequenceEqual(wanted)) return true;
            list = quoted[(end + 2)..];
        }
    }

    private static bool IsWeak(ReadOnlySpan<byte> tag) => tag.StartsWith("W/"u8);
}
