using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Forms;

// Bodies in JSON: what a client gets wrong is a 4xx that says so, and no error of the handler.
public sealed partial class JsonTests
{
    internal sealed record Order(int Id, string? Name);

    [JsonSerializable(typeof(Order)), JsonSourceGenerationOptions(JsonSerializerDefaults.Web)]
    internal sealed partial class OrderContext : JsonSerializerContext;

    [JsonSerializable(typeof(Order)),
        JsonSourceGenerationOptions(JsonSerializerDefaults.Web, WriteIndented = true, NewLine = "\n")]
    internal sealed partial class IndentedContext : JsonSerializerContext;

    private static readonly Dictionary<string, Action<HttpServer>> s_ways = new()
    {
        ["whole"] = static web => web.Post("/",
            static (request, response) => response.Text($"{request.Json(OrderContext.Default.Order)}")),
        ["whole by reflection"] = static web => web.Post("/",
            static (request, response) => response.Text($"{request.Json<Order>()}")),
        ["awaited"] = static web => web.Post("/", static async (request, response) =>
            response.Text($"{await request.ReadJsonAsync(OrderContext.Default.Order)}")),
        ["awaited by reflection"] = static web => web.Post("/", static async (request, response, stop) =>
            response.Text($"{await request.ReadJsonAsync<Order>(cancellationToken: stop)}")),
        ["after a filter"] = static web =>
        {
            web.Use(static async (request, _) => await request.ReadBodyAsync());
            web.Post("/", static async (request, response) =>
            {
                await Task.CompletedTask;
                response.Text($"{request.Json(OrderContext.Default.Order)}");
            });
        },
    };

    public static TheoryData<string> Ways => [.. s_ways.Keys];

    [Theory, MemberData(nameof(Ways))]
    public void A_body_in_JSON_becomes_an_object_and_an_invalid_one_is_the_mistake_of_the_client(string way)
    {
        (string Type, string Body, string Expected)[] cases =
        [
            ("application/json", """{"id":7,"name":"a"}""", "200 Order { Id = 7, Name = a }"),
            ("Application/JSON; charset=utf-8", """{"ID":7}""", "200 Order { Id = 7, Name =  }"),
            ("application/merge-patch+json", """{"id":7}""", "200 Order { Id = 7, Name =  }"),
            ("", "\u00ef\u00bb\u00bf{\"id\":7}", "200 Order { Id = 7, Name =  }"), ("application/json", "null", "200 "),
            ("application/json", """{"id":"x"}""",
                "400 400 Bad Request: The body is no JSON of the expected form (at $.id)."),
            ("application/json", "{", "400 400 Bad Request: The body is no JSON of the expected form"),
            ("application/json", "", "400 400 Bad Request: The body is missing: JSON is expected."),
            ("application/x-www-form-urlencoded", """{"id":7}""",
                "415 415 Unsupported Media Type: The body is no application/json."), ("text/plain", "{}", "415 "),
        ];
        foreach ((string type, string body, string expected) in cases)
        {
            using Web web = new();
            s_ways[way](web.Server);
            TestPeer peer = web.Connect();
            peer.Send(
                Encoding.Latin1.GetBytes(Web.Post("/", body, type.Length == 0 ? "" : $"Content-Type: {type}\r\n")));
            Answer answer = Web.One(peer);
            Assert.StartsWith(expected, $"{answer.Status} {answer.Body}", StringComparison.Ordinal);
            Assert.Equal(answer.Status == 200 ? 0 : 1, web.Counters.Refused);
            Assert.Equal(0, web.Counters.HandlerErrors);
        }
    }

    [Fact]
    public void JSON_of_a_stream_is_not_read_as_if_it_were_in_memory()
    {
        using Web web = new();
        string message = "";
        web.Server.Post("/", async (request, response) =>
        {
            message = Assert.Throws<InvalidOperationException>(() => request.Json<Order>()).Message;
            response.Text($"{await request.ReadJsonAsync<Order>()}");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Post("/", """{"id":7}"""));
        Assert.Equal(200, Web.One(peer).Status);
        Assert.Contains("await ReadJsonAsync", message, StringComparison.Ordinal);
    }

    [Fact]
    public void An_answer_in_JSON_is_indented_when_its_context_says_so()
    {
        using Web web = new();
        web.Server.Get("/", static (_, response) => response.Json(new Order(7, "a"), IndentedContext.Default.Order));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.Equal(["200 {\n  \"id\": 7,\n  \"name\": \"a\"\n}"], Web.Answers(peer));
    }
}
