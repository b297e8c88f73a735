using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.Files;

// Conditional and content-negotiation fields of a request, against a file with tag "a", modified on Sun, 06 Nov 1994
// 08:49:37 GMT.
public sealed class ConditionTests
{
    private const string Tag = "\"a\"";
    private const long Modified = 784111777;
    private const string Then = "Sun, 06 Nov 1994 08:49:37 GMT";
    private const string Before = "Sun, 06 Nov 1994 08:49:36 GMT";
    private const string After = "Sun, 06 Nov 1994 08:49:38 GMT";

    [Theory]
    [InlineData("", "200", "200")]
    [InlineData("If-Match: \"a\"", "200", "200")]
    [InlineData("If-Match: \"b\"", "412", "412")]
    [InlineData("If-Match: \"b\", \"a\"", "200", "200")]
    [InlineData("If-Match: \"b,\", \"a\"", "200", "200")]
    [InlineData("If-Match: \"b\"|If-Match: \"a\"", "200", "200")]
    [InlineData("If-Match: *", "200", "200")]
    [InlineData("If-Match: W/\"a\"", "412", "412")]
    [InlineData("If-Match: a", "412", "412")]
    [InlineData("If-Match: \"a", "412", "412")]
    [InlineData("If-Match:", "412", "412")]
    [InlineData("If-Match: \"a\"|If-Unmodified-Since: BEFORE", "200", "200")] // the date is not looked at beside a tag
    [InlineData("If-Match: \"b\"|If-Unmodified-Since: AFTER", "412", "412")]
    [InlineData("If-Match: \"a\"|If-None-Match: \"a\"", "304", "412")]
    [InlineData("If-Match: \"b\"|If-None-Match: \"a\"", "412", "412")]
    [InlineData("If-Unmodified-Since: BEFORE", "412", "412")]
    [InlineData("If-Unmodified-Since: THEN", "200", "200")]
    [InlineData("If-Unmodified-Since: AFTER", "200", "200")]
    [InlineData("If-Unmodified-Since: yesterday", "200", "200")]
    [InlineData("If-Unmodified-Since: BEFORE|If-Unmodified-Since: BEFORE", "200", "200")] // one is a date, two are none
    [InlineData("If-None-Match: \"a\"", "304", "412")]
    [InlineData("If-None-Match: W/\"a\"", "304", "412")]
    [InlineData("If-None-Match: \"b\"", "200", "200")]
    [InlineData("If-None-Match: \"b\" , W/\"c\",\"a\"", "304", "412")]
    [InlineData("If-None-Match: \"b\"|If-None-Match: \"a\"", "304", "412")]
    [InlineData("If-None-Match: *", "304", "412")]
    [InlineData("If-None-Match: b, \"a\"", "200", "200")] // entries after a syntax error are ignored
    [InlineData("If-None-Match: \"b\"|If-Modified-Since: AFTER", "200", "200")]
    [InlineData("If-None-Match: \"a\"|If-Modified-Since: BEFORE", "304", "412")]
    [InlineData("If-Modified-Since: BEFORE", "200", "200")]
    [InlineData("If-Modified-Since: THEN", "304", "200")]
    [InlineData("If-Modified-Since: AFTER", "304", "200")]
    [InlineData("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT", "304", "200")]
    [InlineData("If-Modified-Since: Sun Nov  6 08:49:37 1994", "304", "200")]
    [InlineData("If-Modified-Since: Sun Nov  6 08:49:36 1994", "200", "200")]
    [InlineData("If-Modified-Since: 784111777", "200", "200")]
    [InlineData("If-Unmodified-Since: THEN|If-Modified-Since: THEN", "304", "200")]
    [InlineData("If-Unmodified-Since: BEFORE|If-Modified-Since: THEN", "412", "412")]
    [InlineData("If-Unmodified-Since: THEN|If-None-Match: \"a\"", "304", "412")]
    public void Conditions_are_judged_in_the_order_of_the_RFC(string fields, string read, string write)
    {
        Assert.Equal(read, Judge("GET", fields, Tag));
        Assert.Equal(read, Judge("HEAD", fields, Tag));
        Assert.Equal(write, Judge("PUT", fields, Tag));
    }

    [Theory]
    [InlineData("If-None-Match: W/\"a\"", "304")]
    [InlineData("If-None-Match: \"a\"", "304")]
    [InlineData("If-Match: W/\"a\"", "412")]
    [InlineData("If-Match: *", "200")]
    public void A_weak_tag_matches_weakly_and_never_strongly(string fields, string read) =>
        Assert.Equal(read, Judge("GET", fields, "W/\"a\""));

    [Theory]
    [InlineData("If-None-Match: \"a\"", "200")]
    [InlineData("If-None-Match: *", "304")]
    [InlineData("If-Match: \"\"", "412")]
    [InlineData("If-Modified-Since: THEN", "200")]
    [InlineData("If-Unmodified-Since: BEFORE", "200")]
    public void A_file_without_tag_and_date_fulfils_conditions_that_need_neither(string fields, string read) =>
        Assert.Equal(read, Judge("GET", fields, "", HttpConditions.NoDate));

    [Theory]
    [InlineData("", true)]
    [InlineData("If-Range: \"a\"", true)]
    [InlineData("If-Range: \"b\"", false)]
    [InlineData("If-Range: W/\"a\"", false)]
    [InlineData("If-Range: \"a\", \"b\"", false)]
    [InlineData("If-Range: THEN", true)]
    [InlineData("If-Range: BEFORE", false)]
    [InlineData("If-Range: AFTER", false)]
    [InlineData("If-Range: x", false)]
    [InlineData("If-Range: \"a\"|If-Range: \"a\"", false)]
    public void A_part_is_sent_when_it_is_of_the_same_version(string fields, bool may)
    {
        var (reader, head) = Head("GET", fields);
        Assert.Equal(may,
            HttpConditions.MaySendParts(reader, head, Encoding.ASCII.GetBytes(Tag), Modified, Modified + 1000));
    }

    [Fact]
    public void A_date_within_the_current_second_is_too_weak_for_ranges()
    {
        var (reader, head) = Head("GET", "If-Range: THEN");
        Assert.False(HttpConditions.MaySendParts(reader, head, default, Modified, Modified));
        Assert.True(HttpConditions.MaySendParts(reader, head, default, Modified, Modified + 1));
    }

    [Theory]
    [InlineData("Sun, 06 Nov 1994 08:49:37 GMT", Modified)]
    [InlineData("Sunday, 06-Nov-94 08:49:37 GMT", Modified)]
    [InlineData("Sun Nov  6 08:49:37 1994", Modified)]
    [InlineData("Thu, 01 Jan 1970 00:00:00 GMT", 0L)]
    [InlineData("Wednesday, 01-Jan-70 00:00:00 GMT", 3155760000L)]
    [InlineData("Sat Nov 26 08:49:37 1994", 785839777L)]
    [InlineData("Tue, 29 Feb 2000 23:59:59 GMT", 951868799L)]
    [InlineData("Mon, 06 Nov 1994 08:49:37 GMT", null)] // it was a Sunday
    [InlineData("Monday, 06-Nov-94 08:49:37 GMT", null)]
    [InlineData("Sun Nov 06 08:49:37 1994 ", null)]
    [InlineData("Sun, 06 Nov 1994 08:49:37 UTC", null)]
    [InlineData("Sun, 06 Nov 1994 24:49:37 GMT", null)]
    [InlineData("Wed, 30 Feb 1994 08:49:37 GMT", null)]
    [InlineData("Sun Nov 31 08:49:37 1994", null)]
    [InlineData("Sun, 6 Nov 1994 08:49:37 GMT", null)]
    [InlineData("Sunday, 06-Nov-94 08:49:60 GMT", null)]
    [InlineData("Sunday, 06-Nov-9x 08:49:37 GMT", null)]
    [InlineData("Sun Nov    08:49:37 1994", null)]
    [InlineData(",", null)]
    [InlineData("", null)]
    [InlineData("0", null)]
    public void A_date_is_parsed_in_each_of_its_three_forms(string text, long? seconds)
    {
        bool isMoment = HttpTime.TryRead(Encoding.ASCII.GetBytes(text), 1_700_000_000, out long read);
        Assert.Equal(seconds, isMoment ? read : null);
    }

    [Theory]
    [InlineData("", "identity")]
    [InlineData("Accept-Encoding: gzip", "gzip")]
    [InlineData("Accept-Encoding: br", "br")]
    [InlineData("Accept-Encoding: gzip, deflate, br, zstd", "br")]
    [InlineData("Accept-Encoding: gzip, br;q=0.9", "gzip")]
    [InlineData("Accept-Encoding: GZIP;Q=0.5, br;q=0.4", "gzip")]
    [InlineData("Accept-Encoding: x-gzip", "gzip")]
    [InlineData("Accept-Encoding: gzip;q=0", "identity")]
    [InlineData("Accept-Encoding: gzip;q=0.000, br;q=0.001", "br")]
    [InlineData("Accept-Encoding: *", "br")]
    [InlineData("Accept-Encoding: *;q=0.1, br;q=0", "gzip")]
    [InlineData("Accept-Encoding: identity, gzip;q=0.5", "identity")]
    [InlineData("Accept-Encoding: identity;q=0.5, gzip;q=0.5", "gzip")]
    [InlineData("Accept-Encoding: identity;q=0, gzip;q=0.001", "gzip")]
    [InlineData("Accept-Encoding: identity;q=0", "identity")] // there is always something to read
    [InlineData("Accept-Encoding: deflate", "identity")]
    [InlineData("Accept-Encoding:", "identity")]
    [InlineData("Accept-Encoding: deflate|Accept-Encoding: gzip", "gzip")]
    [InlineData("Accept-Encoding: gzip;q=1.1", "identity")]
    [InlineData("Accept-Encoding: gzip;q=1.000", "gzip")]
    [InlineData("Accept-Encoding: gzip;q=0.1234", "identity")]
    [InlineData("Accept-Encoding: gzip;q=-1", "identity")]
    [InlineData("Accept-Encoding: gzip ; q=1", "gzip")]
    [InlineData("Accept-Encoding: gzip;x=1", "identity")]
    [InlineData("Accept-Encoding: brx, gzipp", "identity")]
    public void The_form_is_the_one_with_the_highest_weight(string fields, string coding)
    {
        var (reader, head) = Head("GET", fields);
        HttpCoding chosen = HttpCodings.Choose(reader, head, hasGzip: true, hasBrotli: true, out _);
        Assert.Equal(coding, chosen switch { HttpCoding.Gzip => "gzip", HttpCoding.Brotli => "br", _ => "identity" });
        if (chosen == HttpCoding.Brotli)
            Assert.NotEqual(HttpCoding.Brotli,
                HttpCodings.Choose(reader, head, hasGzip: true, hasBrotli: false, out _));
        Assert.Equal(HttpCoding.Identity, HttpCodings.Choose(reader, head, hasGzip: false, hasBrotli: false, out _));
    }

    [Theory]
    [InlineData("", false)]
    [InlineData("Accept-Encoding: gzip", false)]
    [InlineData("Accept-Encoding: identity;q=0", true)]
    [InlineData("Accept-Encoding: gzip, *;q=0", true)]
    [InlineData("Accept-Encoding: identity;q=0.1, *;q=0", false)]
    [InlineData("Accept-Encoding: *", false)]
    public void A_client_can_refuse_an_uncompressed_body(string fields, bool expected)
    {
        var (reader, head) = Head("GET", fields);
        HttpCodings.Choose(reader, head, hasGzip: true, hasBrotli: true, out bool refuses);
        Assert.Equal(expected, refuses);
    }

    private static string Judge(string verb, string fields, string tag, long modified = Modified)
    {
        var (reader, head) = Head(verb, fields);
        return HttpConditions.Judge(reader, head, Encoding.ASCII.GetBytes(tag), modified, Modified + 1000) switch
        {
            ConditionVerdict.NotModified => "304",
            ConditionVerdict.Failed => "412",
            _ => "200",
        };
    }

    private static (HttpReader Reader, byte[] Head) Head(string verb, string fields)
    {
        fields = fields.Replace("BEFORE", Before, StringComparison.Ordinal)
            .Replace("THEN", Then, StringComparison.Ordinal).Replace("AFTER", After, StringComparison.Ordinal)
            .Replace("|", "\r\n", StringComparison.Ordinal);
        byte[] head =
            Encoding.ASCII.GetBytes($"{verb} / HTTP/1.1\r\n{Web.Host}{fields}{(fields.Length > 0 ? "\r\n" : "")}\r\n");
        HttpReader reader = new();
        reader.BeginRequest(HttpReaderLimits.Default);
        Assert.Equal(HttpReading.Done, reader.Read(head));
        return (reader, head);
    }
}
