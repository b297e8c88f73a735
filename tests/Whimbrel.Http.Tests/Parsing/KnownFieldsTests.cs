using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.Parsing;

// Every known field is found by its name in any case, and no other name is one.
public sealed class KnownFieldsTests
{
    [Fact]
    public void Each_known_field_is_found_by_its_name_in_any_case()
    {
        foreach (HttpField field in Enum.GetValues<HttpField>())
        {
            if (field == HttpField.Other) continue;
            string name = Encoding.ASCII.GetString(KnownFields.NameOf(field));
            Assert.Equal(name.Replace("-", "", StringComparison.Ordinal), field.ToString(), ignoreCase: true);
            foreach (string written in (string[])[name, name.ToUpperInvariant(), name.ToLowerInvariant()])
                Assert.Equal(field, KnownFields.Find(Encoding.ASCII.GetBytes(written)));
            foreach (string other in (string[])[name + "x", "x" + name, name[1..] + "y", name.Replace('-', '_') + "_"])
                Assert.Equal(HttpField.Other, KnownFields.Find(Encoding.ASCII.GetBytes(other)));
        }

        Assert.Equal(KnownFields.Count, Enum.GetValues<HttpField>().Length);
        // HttpReader uses one bit of a 64-bit word per field.
        Assert.InRange(KnownFields.Count, 1, 64);
    }

    [Fact]
    public void Fields_are_found_by_number_in_their_order()
    {
        HttpReader head = new();
        head.BeginRequest(HttpReaderLimits.Default);
        Assert.Equal(HttpReading.Done,
            head.Read("GET / HTTP/1.1\r\nCookie: a\r\nHost: h\r\ncookie: b\r\nX: y\r\nCOOKIE: c\r\n\r\n"u8));
        List<int> found = [];
        for (int i = head.IndexOf(HttpField.Cookie); i >= 0; i = head.IndexOf(HttpField.Cookie, i + 1)) found.Add(i);
        Assert.Equal([0, 2, 4], found);
        Assert.Equal(-1, head.IndexOf(HttpField.Accept));
    }
}
