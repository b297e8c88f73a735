using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets;

public sealed class HandshakeTests
{
    [Fact]
    public void The_answer_to_a_key_is_that_of_the_RFC()
    {
        byte[] accept = new byte[WebSocketHandshake.AcceptLength];
        WebSocketHandshake.WriteAccept("dGhlIHNhbXBsZSBub25jZQ=="u8, accept);
        Assert.Equal("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", Encoding.ASCII.GetString(accept));
    }

    [Fact]
    public void Keys_are_valid_and_never_the_same()
    {
        HashSet<string> keys = [];
        byte[] key = new byte[WebSocketHandshake.KeyLength];
        for (int i = 0; i < 1000; i++)
        {
            WebSocketHandshake.NewKey(key);
            Assert.True(WebSocketHandshake.IsKey(key));
            Assert.True(keys.Add(Encoding.ASCII.GetString(key)));
        }
    }

    [Theory]
    [InlineData("dGhlIHNhbXBsZSBub25jZQ==", true)]
    [InlineData("", false)]
    [InlineData("dGhlIHNhbXBsZSBub25jZQ=", false)]
    [InlineData("dGhlIHNhbXBsZSBub25jZQ", false)]
    [InlineData("dGhlIHNhbXBsZSBub25jZXg=", false)] // 17 bytes
    [InlineData("dGhlIHNhbXBsZSBub25jZXh4", false)] // 18 bytes
    [InlineData("dGhlIHNhbXBsZSBub25jZQ===", false)]
    [InlineData("dGhlIHNhbXBs SBub25jZQ==", false)]
    [InlineData("dGhlIHNhbXBsZSBub25jZ-==", false)]
    [InlineData("                        ", false)]
    public void A_key_is_16_bytes_in_base64(string key, bool isKey) =>
        Assert.Equal(isKey, WebSocketHandshake.IsKey(Encoding.ASCII.GetBytes(key)));

    // Extension parameters that a server without preferences accepts. "-": none; "!": the field is malformed.
    [Theory]
    [InlineData("permessage-deflate", "permessage-deflate")]
    [InlineData("Permessage-Deflate", "permessage-deflate")]
    [InlineData("permessage-deflate; server_no_context_takeover", "permessage-deflate; server_no_context_takeover")]
    [InlineData("permessage-deflate; client_no_context_takeover", "permessage-deflate; client_no_context_takeover")]
    [InlineData("permessage-deflate;server_no_context_takeover;client_no_context_takeover",
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover")]
    [InlineData("permessage-deflate; client_max_window_bits", "permessage-deflate")]
    [InlineData("permessage-deflate; client_max_window_bits=10", "permessage-deflate; client_max_window_bits=10")]
    [InlineData("permessage-deflate; client_max_window_bits=8", "permessage-deflate; client_max_window_bits=8")]
    [InlineData("permessage-deflate; client_max_window_bits=15", "permessage-deflate")]
    [InlineData("permessage-deflate; server_max_window_bits=15", "permessage-deflate")]
    [InlineData("permessage-deflate; server_max_window_bits=9", "permessage-deflate; server_max_window_bits=9")]
    [InlineData("permessage-deflate; server_max_window_bits=\"12\"", "permessage-deflate; server_max_window_bits=12")]
    [InlineData("permessage-deflate; server_max_window_bits = 12", "permessage-deflate; server_max_window_bits=12")]
    [InlineData("permessage-deflate; server_max_window_bits=8", "-")]
    [InlineData("permessage-deflate; server_max_window_bits=8, permessage-deflate", "permessage-deflate")]
    [InlineData("permessage-deflate; server_max_window_bits", "-")]
    [InlineData("permessage-deflate; server_max_window_bits=7", "-")]
    [InlineData("permessage-deflate; server_max_window_bits=16", "-")]
    [InlineData("permessage-deflate; server_max_window_bits=09", "-")]
    [InlineData("permessage-deflate; server_max_window_bits=1000", "-")]
    [InlineData("permessage-deflate; client_max_window_bits=7", "-")]
    [InlineData("permessage-deflate; client_max_window_bits=0", "-")]
    [InlineData("permessage-deflate; client_max_window_bits=-1", "-")]
    [InlineData("permessage-deflate; client_max_window_bits; client_max_window_bits", "-")]
    [InlineData("permessage-deflate; server_max_window_bits=10; server_max_window_bits=10", "-")]
    [InlineData("permessage-deflate; server_no_context_takeover; server_no_context_takeover", "-")]
    [InlineData("permessage-deflate; server_no_context_takeover=true", "-")]
    [InlineData("permessage-deflate; client_no_context_takeover=\"\"", "!")]
    [InlineData("permessage-deflate; unknown", "-")]
    [InlineData("permessage-deflate; unknown=1, permessage-deflate; client_no_context_takeover",
        "permessage-deflate; client_no_context_takeover")]
    [InlineData("permessage-deflate; server_max_window_bits=10, permessage-deflate",
        "permessage-deflate; server_max_window_bits=10")]
    [InlineData("x-webkit-deflate-frame", "-")]
    [InlineData("x-webkit-deflate-frame, permessage-deflate", "permessage-deflate")]
    [InlineData("mux; max-channels=4; flow-control, permessage-deflate", "permessage-deflate")]
    [InlineData("permessage-deflate,", "!")]
    [InlineData(",permessage-deflate", "!")]
    [InlineData("permessage-deflate;", "!")]
    [InlineData("permessage-deflate; =", "!")]
    [InlineData("permessage-deflate; a=", "!")]
    [InlineData("permessage-deflate; a=\"b", "!")]
    [InlineData("permessage-deflate; a=\"b c\"", "!")]
    [InlineData("permessage-deflate; a b", "!")]
    [InlineData("permessage deflate", "!")]
    [InlineData("permessage-deflate, , permessage-deflate", "!")]
    [InlineData("", "-")]
    public void A_server_takes_the_first_offer_that_it_can_keep_to(string offers, string expected)
    {
        bool isWell = DeflateTerms.TryAgree(Encoding.ASCII.GetBytes(offers), new DeflateTerms(),
            out DeflateTerms? terms);
        Assert.Equal(expected, isWell ? Text(terms) : "!");
    }

    [Fact]
    public void A_server_negotiates_its_own_parameters_within_the_offer_of_the_client()
    {
        DeflateTerms wishes = new() { ServerForgets = true, ClientForgets = true, ServerBits = 11, ClientBits = 12 };
        Assert.True(DeflateTerms.TryAgree("permessage-deflate"u8, wishes, out DeflateTerms? terms));
        // it did not offer its window
        Assert.Equal("permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
            + "server_max_window_bits=11", Text(terms));
        Assert.True(DeflateTerms.TryAgree("permessage-deflate; client_max_window_bits; server_max_window_bits=10"u8,
            wishes, out terms));
        Assert.Equal("permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
            + "server_max_window_bits=10; client_max_window_bits=12", Text(terms));
        Assert.True(DeflateTerms.TryAgree("permessage-deflate; client_max_window_bits=9"u8, wishes, out terms));
        Assert.Equal("permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
            + "server_max_window_bits=11; client_max_window_bits=9", Text(terms));
    }

    // Responses that a client accepts which offered client_max_window_bits and nothing else.
    [Theory]
    [InlineData("permessage-deflate", true)]
    [InlineData("permessage-deflate; server_no_context_takeover", true)]
    [InlineData("permessage-deflate; client_no_context_takeover", true)]
    [InlineData("permessage-deflate; server_max_window_bits=10", true)]
    [InlineData("permessage-deflate; client_max_window_bits=10", true)]
    [InlineData("permessage-deflate; client_max_window_bits=8", true)]
    [InlineData("permessage-deflate; client_max_window_bits", false)]
    [InlineData("permessage-deflate; server_max_window_bits", false)]
    [InlineData("permessage-deflate; server_max_window_bits=16", false)]
    [InlineData("permessage-deflate; server_max_window_bits=7", false)]
    [InlineData("permessage-deflate; unknown", false)]
    [InlineData("permessage-deflate, permessage-deflate", false)]
    [InlineData("other", false)]
    [InlineData("permessage-deflate;", false)]
    [InlineData("", true)]
    public void A_client_refuses_what_it_did_not_offer(string answer, bool isTaken) =>
        Assert.Equal(isTaken, DeflateTerms.TryAccept(Encoding.ASCII.GetBytes(answer),
            new DeflateTerms { OffersClientBits = true }, out _));

    [Fact]
    public void A_client_holds_the_server_to_what_it_asked_for()
    {
        DeflateTerms offer = new() { ServerForgets = true, ServerBits = 10 };
        Assert.Equal("permessage-deflate; server_no_context_takeover; server_max_window_bits=10", Text(offer));
        Assert.False(DeflateTerms.TryAccept("permessage-deflate"u8, offer, out _));
        Assert.False(DeflateTerms.TryAccept("permessage-deflate; server_no_context_takeover"u8, offer, out _));
        Assert.False(DeflateTerms.TryAccept("permessage-deflate; server_max_window_bits=9"u8, offer, out _));
        Assert.False(DeflateTerms.TryAccept(
            "permessage-deflate; server_no_context_takeover; server_max_window_bits=11"u8, offer, out _));
        Assert.False(DeflateTerms.TryAccept("permessage-deflate; server_no_context_takeover; "u8
            + "server_max_window_bits=9; client_max_window_bits=9"u8, offer, out _));
        Assert.True(DeflateTerms.TryAccept("permessage-deflate; server_no_context_takeover; server_max_window_bits=9"u8,
            offer, out DeflateTerms? terms));
        Assert.Equal(9, terms!.Value.ServerBits);
    }

    private static string Text(DeflateTerms? terms)
    {
        if (terms is null) return "-";
        byte[] text = new byte[DeflateTerms.MostText + 32];
        int length = terms.Value.Write(text);
        Assert.InRange(length, 1, DeflateTerms.MostText);
        return Encoding.ASCII.GetString(text, 0, length);
    }
}
