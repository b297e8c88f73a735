using System.Diagnostics;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// Delivery is complete: whole responses of handlers that throw afterwards, responses in pieces with many fields, and no
// file if there is none.
public sealed class DeliveryTests
{
    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(30);

    [Theory]
    [InlineData(5, false, Scheduling.Inline)]
    [InlineData(5, true, Scheduling.Inline)]
    [InlineData(1_000_000, false, Scheduling.Inline)]
    [InlineData(1_000_000, true, Scheduling.Inline)]
    [InlineData(5, false, Scheduling.ThreadPool)]
    [InlineData(1_000_000, true, Scheduling.ThreadPool)]
    public void An_answer_that_was_whole_before_its_handler_threw_is_delivered(int length, bool isAwaited,
        Scheduling scheduling)
    {
        using Web web = new(scheduling: scheduling);
        web.Network.RethrowsExceptions = false;
        void Handle(HttpRequest request, HttpResponse response)
        {
            response.Text(new string('x', length));
            throw new InvalidDataException("mine");
        }

        if (isAwaited)
        {
            web.Server.Get("/", (request, response, _) =>
            {
                Handle(request, response);
                return default;
            });
        }
        else
        {
            web.Server.Get("/", Handle);
        }

        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/") + Web.Get("/"));
        List<Answer> answers = Web.Read(peer);
        Assert.Equal([(200, length), (200, length)], answers.Select(static a => (a.Status, a.Body.Length)));
        Assert.Equal(2, web.Counters.HandlerErrors);
    }

    [Theory]
    [InlineData(15)]
    [InlineData(17)]
    [InlineData(40)]
    [InlineData(120)]
    public void An_answer_in_pieces_has_room_for_as_many_fields_as_a_whole_one(int kibibytes)
    {
        using Web web = new();
        string value = new('f', 1000);
        void AddFields(HttpResponse response)
        {
            for (int i = 0; i < kibibytes; i++) response.Add($"X-{i}", value);
        }

        web.Server.Get("/whole", (_, response) =>
        {
            AddFields(response);
            response.Text("hello");
        });
        web.Server.Get("/pieces", async (_, response) =>
        {
            AddFields(response);
            for (int i = 0; i < 100; i++)
                await response.WriteAsync("12345678901234567890123456789012345678901234567890"u8.ToArray());
            await response.WriteAsync(new byte[40_000]);
        });
        TestPeer peer = web.Connect();
        foreach ((string path, int length) in ((string, int)[])[("/whole", 5), ("/pieces", 45_000)])
        {
            peer.Send(Web.Get(path));
            byte[] received = peer.Receive();
            int head = received.AsSpan().IndexOf("\r\n\r\n"u8) + 4;
            Http.Parsing.HttpReader reader = new();
            reader.BeginResponse(new Http.Parsing.HttpReaderLimits(1024, 1 << 20, 1000, long.MaxValue),
                answersHead: false);
            Assert.Equal(Http.Parsing.HttpReading.Done, reader.Read(received));
            Assert.Equal((200, true), (reader.Status,
                received.AsSpan(0, head).IndexOf(System.Text.Encoding.ASCII.GetBytes($"X-{kibibytes - 1}: ff")) > 0));
            Http.Parsing.HttpBodyReader body = new(reader, Http.Parsing.HttpReaderLimits.Default);
            int at = head, total = 0;
            while (body.Read(received.AsSpan(at), out int taken) == Http.Parsing.HttpReading.Data)
            {
                at += taken;
                total += body.Length;
            }

            Assert.Equal(length, total);
        }
    }

    [Fact]
    public void More_fields_than_an_answer_may_have_are_refused_at_the_call()
    {
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/", static (_, response) =>
        {
            for (int i = 0; i < 200; i++) response.Add("X-Many", new string('f', 1000));
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.Equal(500, Web.One(peer).Status);
    }

    [Fact]
    public void A_path_with_NUL_is_refused_at_the_call()
    {
        using Web web = new();
        Exception? thrown = null;
        web.Server.Get("/", (_, response) => { thrown = Record.Exception(() => response.File("a\0b")); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.Contains("NUL", Assert.IsType<ArgumentException>(thrown).Message, StringComparison.Ordinal);
        Assert.Equal(204, Web.One(peer).Status);
    }

    [Fact]
    public async Task A_file_that_is_not_regular_is_not_found_and_blocks_no_request()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test needs the FIFOs and devices of Linux.");
        string folder = Directory.CreateTempSubdirectory("whimbrel-").FullName;
        try
        {
            string fifo = Path.Combine(folder, "fifo");
            using (Process made = Process.Start("mkfifo", fifo))
                await made.WaitForExitAsync(TestContext.Current.CancellationToken);
            await using EngineSite site = new(EngineKind.Auto, isTls: false, Scheduling.Inline);
            string[] paths = [fifo, "/dev/zero", "/dev/null", folder];
            site.Server.Get("/{which}", (request, response) => response.File(paths[request.Route["which"][0] - '0']));
            await site.StartAsync();
            // Enough requests to occupy each pool thread for longer than a client waits.
            Task<HttpResponseMessage>[] answers = [.. Enumerable.Range(0, 64).Select(i => site.Client.GetAsync(
                new Uri($"/{i % paths.Length}", UriKind.Relative), TestContext.Current.CancellationToken))];
            HttpResponseMessage[] all = await Task.WhenAll(answers)
                .WaitAsync(_patience, TestContext.Current.CancellationToken);
            Assert.All(all, static answer => Assert.Equal(System.Net.HttpStatusCode.NotFound, answer.StatusCode));
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }
}
