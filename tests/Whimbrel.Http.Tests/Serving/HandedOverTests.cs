using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// Routes on a connection that another server accepted and another session read from first.
public sealed class HandedOverTests
{
    private sealed class Door(HttpServer web) : Session
    {
        protected override int OnData(ReadOnlySpan<byte> unread)
        {
            if (unread.Length >= 4) HandOver(web.CreateSession());
            return 0;
        }
    }

    [Fact]
    public void A_session_made_for_it_serves_the_routes_from_the_first_byte_on()
    {
        using TestNetwork network = new();
        HttpServer web = new("http://127.0.0.1:0"); // never started
        web.Get("/hello/{name}", static (request, response) => response.Text(request.Route["name"]));
        web.Post("/echo", static (request, response) => response.Bytes(request.BodyBytes));
        Server server = new(new ServerOptions { Engine = network.Engine, EndPoint = network.NewEndPoint() },
            () => new Door(web));
        TestPeer peer = network.Connect(server);
        peer.Send("GET");
        Assert.Empty(peer.Receive());
        peer.Send($" /hello/anna HTTP/1.1\r\n{Web.Host}\r\n{Web.Post("/echo", "body")}{Web.Get("/none")}");
        Assert.Equal(["200 anna", "200 body", "404 404 Not Found\r\n"], Web.Answers(peer));
        Assert.True(peer.IsConnected);
        Assert.Equal(3, web.Http.ReadCounters().Requests);

        TestPeer wrong = network.Connect(server);
        wrong.Send("hello\r\n\r\n");
        Assert.Equal(400, Web.One(wrong).Status);
        Assert.False(wrong.IsConnected);
        TestPeer other = network.Connect(server);
        other.Send(Web.Get("/hello/bert"));
        Assert.Equal(["200 bert"], Web.Answers(other));
    }
}
