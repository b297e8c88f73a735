using Whimbrel.Examples;
using Whimbrel.Http;

// dotnet run --project examples/CacheApi [address]: then open it in a browser, or
//   curl -X PUT --data 'some text' http://127.0.0.1:8080/api/cache?key=one
//   curl http://127.0.0.1:8080/api/cache?key=one
await using HttpServer web = new(args.Length > 0 ? args[0] : "http://127.0.0.1:8080");
new CacheApi().Map(web);
CacheApi.MapPage(web);
await web.StartAsync();
Console.WriteLine($"http://{web.EndPoint}: Enter ends it.");
Console.ReadLine();
await web.StopAsync(TimeSpan.FromSeconds(5));
